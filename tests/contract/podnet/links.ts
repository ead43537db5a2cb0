// SPDX-License-Identifier: Apache-2.0
// Hosts, pods and guests as network namespaces, wired by podnet.
import { closeSync, fstatSync, openSync } from "node:fs";
import type { BridgeWiring } from "@patchbay/core/nics";
import { createNetlink, createProcessRunner } from "@patchbay/os";
import { createPodNetwork } from "@patchbay/podnet";
import type { NetnsHandle, PodNetwork, ProcessRunner } from "@patchbay/core/interfaces";
import { run } from "@patchbay/support";

/** Prefix of this process's namespaces. */
export const PREFIX = `pbt${String(process.pid)}`;
export const MAC = "02:00:00:00:5e:01";

export const WIRING: BridgeWiring = {
  kind: "bridge",
  podInterfaceName: "pod1",
  bridgeName: "k6t-1",
  tapName: "tap1",
  mac: MAC,
  mtu: 1500,
  owner: 107,
  queues: 1,
};

/** Network namespaces that are deleted with their content after the test. */
export class Namespaces {
  readonly #names: string[] = [];
  readonly #fds: number[] = [];

  add(role: string): string {
    const name = `${PREFIX}-${role}`;
    run("ip", "netns", "add", name);
    this.#names.push(name);
    run("ip", "-n", name, "link", "set", "lo", "up");
    return name;
  }

  open(name: string): NetnsHandle {
    const fd = openSync(`/run/netns/${name}`, "r");
    this.#fds.push(fd);
    return { fd, inode: String(fstatSync(fd).ino) };
  }

  close(): void {
    for (const fd of this.#fds.splice(0)) closeSync(fd);
    for (const name of this.#names.splice(0)) run("ip", "netns", "del", name);
  }
}

export function makeNetwork(): PodNetwork {
  return createPodNetwork({ runner: createProcessRunner(), netlink: createNetlink() });
}

/** Runs a program with a container's mounts, where process 1 is inaccessible, as in some sandboxes. */
const CONTAINED =
  'mount -t tmpfs none /proc/1 && mount --bind /proc/sys /proc/sys && mount -o remount,bind,ro /proc/sys && exec "$@"';

/** The adapter as an agent in a pod runs it. */
export function makeContainedNetwork(hostProcess?: number): PodNetwork {
  const real = createProcessRunner();
  const runner: ProcessRunner = {
    ...real,
    run: (command) => {
      const argv = ["unshare", "--mount", "sh", "-c", CONTAINED, "sh", ...command.argv] as const;
      return real.run({ ...command, argv });
    },
  };
  const netlink = createNetlink();
  return createPodNetwork({ runner, netlink, ...(hostProcess !== undefined && { hostProcess }) });
}

/** A NIC in `pod` whose peer or parent is a port of `br0` in `host`; kind `tun`: a tap without a user. */
export function addNic(
  at: { readonly host: string; readonly pod: string },
  nic: { readonly name: string; readonly kind: string; readonly mac: string },
): void {
  const { host, pod } = at;
  if (nic.kind === "tun") {
    run("ip", "-n", pod, "tuntap", "add", "dev", nic.name, "mode", "tap");
    run("ip", "-n", pod, "link", "set", nic.name, "address", nic.mac);
  } else if (nic.kind === "veth") {
    const peer = `${pod.slice(PREFIX.length + 1)}${nic.name}`.slice(0, 15);
    const text = ["link", "add", peer, "type", "veth", "peer", "name", nic.name];
    run("ip", "-n", host, ...text, "address", nic.mac, "netns", pod);
    run("ip", "-n", host, "link", "set", peer, "master", "br0", "up");
  } else {
    const text = ["link", "add", nic.name, "link", "up0", "address", nic.mac, "netns", pod];
    run("ip", "-n", host, ...text, "type", nic.kind, "mode", "bridge");
  }
}

/** A host with a bridge, and `up0`, a NIC on that bridge as a parent of others. */
export function addHost(namespaces: Namespaces, role = "host"): string {
  const host = namespaces.add(role);
  // With a fixed MAC the bridge does not adopt a later port's: guests use it as a gateway.
  run("ip", "-n", host, "link", "add", "br0", "address", "02:00:00:00:5e:fe", "type", "bridge");
  run("ip", "-n", host, "link", "set", "br0", "up");
  run("ip", "-n", host, "link", "add", "up0", "type", "veth", "peer", "name", "up1");
  run("ip", "-n", host, "link", "set", "up1", "master", "br0", "up");
  run("ip", "-n", host, "link", "set", "up0", "up");
  return host;
}

/** The wiring of that guest's NIC. */
export function guestWiring(number: number): BridgeWiring {
  return { ...WIRING, mac: `02:00:00:00:5e:0${String(number)}`, mtu: 1400 };
}

/** A pod whose tap is a veth with the guest's NIC as peer; returns the guest's namespace. */
export async function addGuest(
  at: { readonly namespaces: Namespaces; readonly host: string },
  number: number,
  kind: string,
): Promise<string> {
  const { namespaces, host } = at;
  const pod = namespaces.add(`pod${String(number)}`);
  const guest = namespaces.add(`guest${String(number)}`);
  const wiring = guestWiring(number);
  addNic({ host, pod }, { name: wiring.podInterfaceName, kind, mac: wiring.mac });
  run("ip", "-n", pod, "addr", "add", `10.9.0.10${String(number)}/24`, "dev", "pod1");
  run("ip", "-n", pod, "link", "set", "pod1", "up");
  const peer = ["peer", "name", "eth0", "address", wiring.mac, "mtu", "1400", "netns", guest];
  run("ip", "-n", pod, "link", "add", wiring.tapName, "type", "veth", ...peer);
  run("ip", "-n", guest, "addr", "add", `10.9.0.${String(number)}/24`, "dev", "eth0");
  run("ip", "-n", guest, "addr", "add", `fd09::${String(number)}/64`, "dev", "eth0", "nodad");
  run("ip", "-n", guest, "link", "set", "eth0", "up");
  await makeNetwork().wireTap(namespaces.open(pod), wiring);
  return guest;
}

/** ping's output; throws without replies. */
export function ping(from: string, ...args: readonly string[]): string {
  return run("ip", "netns", "exec", from, "busybox", "ping", "-c", "1", "-W", "2", ...args);
}
