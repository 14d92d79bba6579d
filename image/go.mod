// The programs of tools that Debian does not package: for the stack's image and the lab's.
module rackrate/image

go 1.24

tool fortio.org/fortio

require (
	fortio.org/cli v1.7.0 // indirect
	fortio.org/dflag v1.7.2 // indirect
	fortio.org/fortio v1.66.0 // indirect
	fortio.org/log v1.14.0 // indirect
	fortio.org/scli v1.15.1 // indirect
	fortio.org/sets v1.1.1 // indirect
	fortio.org/struct2env v0.4.1 // indirect
	fortio.org/version v1.0.4 // indirect
	github.com/fsnotify/fsnotify v1.7.0 // indirect
	github.com/golang/protobuf v1.5.4 // indirect
	github.com/google/uuid v1.6.0 // indirect
	golang.org/x/crypto/x509roots/fallback v0.0.0-20240626151235-a6a393ffd658 // indirect
	golang.org/x/exp v0.0.0-20240613232115-7f521ea00fb8 // indirect
	golang.org/x/net v0.26.0 // indirect
	golang.org/x/sys v0.21.0 // indirect
	golang.org/x/text v0.16.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20240701130421-f6361c86f094 // indirect
	google.golang.org/grpc v1.65.0 // indirect
	google.golang.org/protobuf v1.34.2 // indirect
)
