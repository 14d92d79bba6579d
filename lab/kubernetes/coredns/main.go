// CoreDNS with the plugins that the lab's configuration names (lab/nodes/coredns.py). The usual program
// has 50 more, with clients of several clouds, which takes minutes to build. It is built with Kubernetes'
// own client, so go.mod has a version of CoreDNS that asks for none newer.
// CoreDNS documents this way: https://coredns.io/2017/07/25/compile-time-enabling-or-disabling-plugins/
package main

import (
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/loadbalance"
	_ "github.com/coredns/coredns/plugin/ready"

	"github.com/coredns/coredns/coremain"
)

func main() {
	coremain.Run()
}
