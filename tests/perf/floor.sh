#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The kernel and libvirt work of one hotplug, by hand: CNI ADD, links, attach. Prints "NAME MILLISECONDS" for each.
# Usage: floor.sh plug|unplug NETNS SOCKET BRIDGE [SUBNET]
set -eu
verb=$1 netns=$2 socket=$3 ipam='{}'
[ -z "${5-}" ] || ipam='{"type":"host-local","subnet":"'$5'"}'
nic=podfloor0 bridge=k6t-floor0 tap=tapfloor0 mac=02:f1:00:00:00:01
uri="qemu:///session?socket=$socket"
config='{"cniVersion":"0.4.0","name":"perf","type":"bridge","bridge":"'$4'","ipam":'$ipam'}'
export CNI_CONTAINERID=floor CNI_NETNS="$netns" CNI_IFNAME=$nic CNI_PATH=/usr/lib/cni CNI_ARGS="IgnoreUnknown=1;MAC=$mac"

now() { date +%s%N; }
# took NAME BEGIN
took() { echo "$1 $((($(now) - $2) / 1000))"; }

if [ "$verb" = plug ]; then
  begin=$(now)
  echo "$config" | CNI_COMMAND=ADD /usr/lib/cni/bridge >/dev/null
  took cni "$begin"
  begin=$(now)
  nsenter --net="$netns" ip -batch - <<EOF
addr flush dev $nic
link add $bridge type bridge
link set $nic master $bridge
tuntap add $tap mode tap user 107 group 107
link set $tap master $bridge
link set $nic up
link set $tap up
link set $bridge up
EOF
  took links "$begin"
  begin=$(now)
  file=$(mktemp)
  cat >"$file" <<EOF
<interface type='ethernet'><mac address='$mac'/><target dev='$tap' managed='no'/>
<model type='virtio-non-transitional'/><rom enabled='no'/></interface>
EOF
  virsh -q -c "$uri" attach-device default_perf "$file" --live >/dev/null
  rm -f "$file"
  took libvirt "$begin"
else
  virsh -q -c "$uri" detach-interface default_perf ethernet --mac "$mac" --live >/dev/null
  nsenter --net="$netns" ip -batch - <<EOF
link del $tap
link del $bridge
EOF
  echo "$config" | CNI_COMMAND=DEL /usr/lib/cni/bridge >/dev/null
fi
