#!/bin/sh
# Stands for commands of the nodes' image, by the names of its links. Debian's ctr cannot set a
# container's user and control group, so runc sets them.
for last; do :; done
case "${0##*/} $*" in
  "systemctl enable --now containerd" | "aws ecr get-login-password "*) ;; # it runs; there is no registry
  "ctr image pull "*) # containerd has what was pushed, by its tag and by its digest
    known="$(echo "$last" | sed 's/:[^:@]*@/@/')"
    "$CTR" images list --quiet | grep -qxF "$last" || "$CTR" images tag "$known" "$last" ;;
  "ctr run "*" --user 65532:65532 "*)
    for each; do shift; case "$each" in run | --user | 65532:65532) ;; *) set -- "$@" "$each" ;; esac; done
    exec "$CTR" run --runc-binary "${0%/*}/runc" "$@" ;;
  "ctr container label "*) exec "$CTR" "$@" ;;
  "runc "*)
    user='"user":{"uid":65532,"gid":65532}' group="\"cgroupsPath\":\"$CONTROL_GROUP/$last\""
    for each; do
      [ "$before" != --bundle ] ||
        sed -i "s#\"user\":{[^}]*}#$user#; s#\"cgroupsPath\":\"[^\"]*\"#$group#" "$each/config.json"
      before="$each"
    done
    exec "$RUNC" "$@" ;;
  *) echo "an instance of the lab has no ${0##*/} $*" >&2; exit 127 ;;
esac
