#!/bin/sh
# A CNI plugin of the stories about registered bindings. Asked for by a binding (`logicNetworkName`) it makes a link that
# bears the name of the network as its alias; else a tap for the guest, on whose other side the pod answers at 10.8.9.1.
set -eu
config=$(cat)
network=$(printf '%s' "$config" | sed -n 's/.*"logicNetworkName": *"\([^"]*\)".*/\1/p')
enter() { nsenter --net="${CNI_NETNS:-}" "$@"; }

if [ "$CNI_COMMAND" = VERSION ]; then
  echo '{"cniVersion":"1.0.0","supportedVersions":["1.0.0"]}'
  exit
fi
if [ -n "$network" ]; then link=$CNI_IFNAME; else link="tap${CNI_IFNAME#pod}"; fi
enter ip link del "$link" 2>/dev/null || true
[ "$CNI_COMMAND" = ADD ] || exit 0
if [ -n "$network" ]; then
  enter ip link add "$link" type bridge
  enter ip link set "$link" alias "$network"
else
  enter ip tuntap add dev "$link" mode tap user 107 group 107
  enter ip addr add 10.8.9.1/24 dev "$link"
fi
printf '{"cniVersion":"1.0.0","interfaces":[{"name":"%s","sandbox":"%s"}]}\n' "$link" "$CNI_NETNS"
