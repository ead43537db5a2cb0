#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs a command in a root file system as on a machine of its own: in mount, pid, uts and ipc namespaces, as root.
# The root is pivoted to, because a container that runc makes in a chroot does not see its own mounts.
# Usage: in-root.sh [--own-network] ROOT COMMAND...
#   --own-network: a network namespace with one uplink that leads nowhere, so that ports and bridges of the host stay free
set -eu
network=""
if [ "$1" = --own-network ]; then
  network=--net
  shift
fi
# shellcheck disable=SC2016 # the inner shell expands
exec unshare $network --mount --pid --uts --ipc --fork --kill-child --propagation private sh -euc '
network=$1
root=$2
shift 2
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
if [ -z "$network" ]; then
  mount --rbind /sys "$root/sys"
else
  # Shows the links of this namespace.
  mount -t sysfs sysfs "$root/sys"
  mount --rbind /sys/fs/cgroup "$root/sys/fs/cgroup"
  ip link set lo up
  ip link add uplink type veth peer name beyond
  ip link set beyond up
  ip link set uplink up
  ip address add 192.0.2.2/24 dev uplink
  ip route add default via 192.0.2.1
fi
cd "$root"
mkdir -p host
pivot_root . host
umount -l /host
exec "$@"
' in-root "$network" "$@"
