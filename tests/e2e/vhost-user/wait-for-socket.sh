#!/bin/sh
# A CNI plugin of the stories about vhost-user, the first of its list: waits until the dataplane has made the socket, so
# that a VM that is to have it starts with it.
set -eu
cat >/dev/null
[ "$CNI_COMMAND" != VERSION ] || echo '{"cniVersion":"1.0.0","supportedVersions":["1.0.0"]}'
[ "$CNI_COMMAND" = ADD ] || exit 0
pod=$(printf '%s' "$CNI_ARGS" | sed -n 's/.*K8S_POD_UID=\([^;]*\).*/\1/p')
left=300
until [ -S "/run/patchbay/vhost-user/$pod/$CNI_IFNAME.sock" ] || [ "$left" = 0 ]; do
  left=$((left - 1))
  sleep 0.1
done
echo '{"cniVersion":"1.0.0"}'
