// SPDX-License-Identifier: Apache-2.0
// A guest gets its network's addresses and the IPv6 default route from its pod only.
import type { BridgeWiring } from "@patchbay/core/nics";
import { createNamespaces, createProcessRunner } from "@patchbay/os";
import { createDhcpServers } from "@patchbay/podnet";
import type { AddressServer } from "@patchbay/core/interfaces";
import { SERVED_NIC } from "@patchbay/podnet/testing";
import { eventually, run } from "@patchbay/support";
import { afterEach, expect, test } from "vitest";
import {
  buildRecordedLease,
  listServerAddresses,
} from "../../../packages/control-plane/core/src/nics/addresses/lease.ts";
import { BINDINGS } from "../../../packages/control-plane/core/src/nics/bindings/binding.ts";
import { askIpv4, defaultRouteOf } from "./dhcp-guest.ts";
import { addHost, addNic, guestWiring, makeNetwork, Namespaces, ping, PREFIX } from "./links.ts";

const namespaces = new Namespaces();
const runner = createProcessRunner();
const servers = createDhcpServers({
  runner,
  namespaces: createNamespaces(),
  processFamily: `${PREFIX}-guest`,
});
const running: AddressServer[] = [];
afterEach(async () => {
  for (const server of running.splice(0)) await server.stop();
  namespaces.close();
});

/** A guest behind a pod NIC with CNI addresses; `serve` starts the address servers. */
async function makeGuest(kind: string) {
  const host = addHost(namespaces);
  run("ip", "-n", host, "addr", "add", "10.9.0.254/24", "dev", "br0");
  run("ip", "-n", host, "addr", "add", "fd09::1/64", "dev", "br0", "nodad");
  run("ip", "-n", host, "addr", "add", "2001:db8::1/128", "dev", "lo", "nodad");
  const [pod, guest] = [namespaces.add("pod"), namespaces.add("guest")];
  const own = guestWiring(1);
  addNic({ host, pod }, { name: own.podInterfaceName, kind, mac: own.mac });
  const ip = (...text: readonly string[]): string => run("ip", "-n", pod, ...text);
  ip("link", "set", "pod1", "mtu", "1400", "up");
  ip("addr", "add", "10.9.0.5/24", "dev", "pod1");
  ip("addr", "add", "fd09::5/64", "dev", "pod1", "nodad");
  ip("route", "add", "default", "via", "10.9.0.254");
  ip("-6", "route", "add", "default", "via", "fd09::1");
  ip(
    "link",
    "add",
    own.tapName,
    "type",
    "veth",
    "peer",
    "name",
    "eth0",
    "address",
    own.mac,
    "mtu",
    "1400",
    "netns",
    guest,
  );
  run("ip", "-n", guest, "link", "set", "eth0", "up");
  const network = makeNetwork();
  const netns = namespaces.open(pod);
  const remembered = await network.readAddresses(netns, "pod1");
  const lease = buildRecordedLease(remembered) ?? {};
  const { gatewayMac = "" } = remembered;
  const wiring: BridgeWiring = {
    ...own,
    replies: { addresses: listServerAddresses(lease), gatewayMac },
  };
  const nic = { ...SERVED_NIC, bridgeName: own.bridgeName, mac: own.mac, lease };
  const serve = async (): Promise<void> => {
    running.push(await servers.start(netns, nic));
  };
  return { host, guest, netns, network, wiring, serve };
}

test.each(["veth", "macvlan"])(
  "has addresses of both families and reaches remote hosts, on %s",
  async (kind) => {
    const { guest, netns, network, wiring, serve } = await makeGuest(kind);
    await network.wireTap(netns, wiring);
    expect((await network.observe(netns)).isWired(wiring)).toBe(true);
    await serve();
    expect(askIpv4(guest)).toMatchObject({ ip: "10.9.0.5", mask: "24", mtu: "1400" });
    run("ip", "-n", guest, "addr", "add", "10.9.0.5/24", "dev", "eth0");
    run("ip", "-n", guest, "addr", "add", "fd09::5/128", "dev", "eth0", "nodad");
    await eventually(() => defaultRouteOf(guest).startsWith("default via fe80::"), {
      withinMs: 15_000,
    });
    expect(ping(guest, "10.9.0.254")).toContain(" 0% packet loss");
    expect(ping(guest, "-6", "fd09::1")).toContain(" 0% packet loss");
    expect(ping(guest, "-6", "2001:db8::1")).toContain(" 0% packet loss");
  },
);

test("a DHCP server on the network neither receives nor sends guest frames", async () => {
  const { host, guest, netns, network, wiring, serve } = await makeGuest("veth");
  const { mac } = SERVED_NIC;
  const lease = { ipv4: { address: "10.9.0.66/24", server: "10.9.0.254/24", routes: [] } };
  const foreign = { ...SERVED_NIC, bridgeName: "br0", mac, lease };
  running.push(await servers.start(namespaces.open(host), foreign));
  await network.wireTap(netns, guestWiring(1));
  expect(askIpv4(guest)).toMatchObject({ ip: "10.9.0.66" });
  await network.wireTap(netns, wiring);
  expect(askIpv4(guest)).toBeUndefined();
  await serve();
  expect(askIpv4(guest)).toMatchObject({ ip: "10.9.0.5" });
});

test("gets an address of the network it was swapped to, from an IPv4-only one", async () => {
  const { host, guest, netns, network, wiring, serve } = await makeGuest("veth");
  const pod = `${PREFIX}-pod`;
  const old = { podInterfaceName: "pod2", bridgeName: "k6t-2" };
  addNic({ host, pod }, { name: "pod2", kind: "veth", mac: "02:00:00:00:5e:22" });
  run("ip", "-n", pod, "addr", "add", "10.8.0.5/24", "dev", "pod2");
  run("ip", "-n", pod, "link", "set", "pod2", "up");
  const answers = { addresses: ["169.254.75.10/32"] };
  await network.wireTap(netns, { ...guestWiring(1), ...old, replies: answers });
  await network.makeBridge(netns, wiring);
  await network.wireTap(netns, wiring);
  await serve();
  run("ip", "-n", guest, "addr", "add", "fd09::5/128", "dev", "eth0", "nodad");
  await eventually(() => defaultRouteOf(guest) !== "", { withinMs: 15_000 });
  // The guest resolves the bridge's MAC.
  expect(ping(guest, "-6", "2001:db8::1")).toContain(" 0% packet loss");
  await network.removeBridge(netns, old.bridgeName);
  expect(run("ip", "netns", "exec", pod, "nft", "list", "tables")).toBe(
    "table bridge patchbay-k6t-1\n",
  );
});

test("reaches hosts through a gateway with a permanent neighbor entry, which does not answer ARP", async () => {
  const host = namespaces.add("host");
  const [pod, guest] = [namespaces.add("pod"), namespaces.add("guest")];
  const own = guestWiring(1);
  const inHost = (...text: readonly string[]): string => run("ip", "-n", host, ...text);
  const inPod = (...text: readonly string[]): string => run("ip", "-n", pod, ...text);
  const peer = ["type", "veth", "peer", "name", "pod1", "address", own.mac, "netns", pod];
  inHost("link", "add", "eni1", "address", "02:00:00:00:5e:fd", ...peer);
  inHost("link", "set", "eni1", "up");
  inHost("route", "add", "10.9.0.5/32", "dev", "eni1");
  inHost("addr", "add", "192.0.2.1/32", "dev", "lo");
  inPod("link", "set", "pod1", "up");
  inPod("addr", "add", "10.9.0.5/32", "dev", "pod1");
  inPod("route", "add", "169.254.1.1", "dev", "pod1");
  inPod("route", "add", "default", "via", "169.254.1.1", "dev", "pod1");
  inPod(
    "neigh",
    "add",
    "169.254.1.1",
    "lladdr",
    "02:00:00:00:5e:fd",
    "dev",
    "pod1",
    "nud",
    "permanent",
  );
  const netns = namespaces.open(pod);
  const network = makeNetwork();
  const remembered = await network.readAddresses(netns, "pod1");
  const facts = { ...own, podAddresses: [], remembered };
  const wiring = BINDINGS.bridge.buildWiring(facts);
  if (wiring?.kind !== "bridge") throw new Error("the pod NIC has no bridge");
  const lease = BINDINGS.bridge.buildLease(facts) ?? {};
  const taps = ["link", "add", own.tapName, "type", "veth", "peer", "name", "eth0"];
  inPod(...taps, "address", own.mac, "netns", guest);
  run("ip", "-n", guest, "link", "set", "eth0", "up");
  for (const rpFilter of ["0", "1"]) {
    const path = "/proc/sys/net/ipv4/conf/all/rp_filter";
    run("ip", "netns", "exec", pod, "sh", "-c", `echo ${rpFilter} >${path}`);
    await network.wireTap(netns, { ...wiring, owner: 107, queues: 1 });
    expect((await network.observe(netns)).isWired(wiring)).toBe(true);
    run("ip", "-n", guest, "addr", "flush", "dev", "eth0");
    running.push(await servers.start(netns, { ...SERVED_NIC, ...own, lease }));
    expect(askIpv4(guest)).toMatchObject({
      ip: "10.9.0.5",
      mask: "32",
      staticroutes: "169.254.1.1/32 0.0.0.0 0.0.0.0/0 169.254.1.1",
    });
    await running.pop()?.stop();
    run("ip", "-n", guest, "addr", "add", "10.9.0.5/32", "dev", "eth0");
    run("ip", "-n", guest, "route", "add", "169.254.1.1", "dev", "eth0");
    run("ip", "-n", guest, "route", "add", "default", "via", "169.254.1.1", "dev", "eth0");
    expect(ping(guest, "192.0.2.1")).toContain(" 0% packet loss");
    run("ip", "-n", guest, "neigh", "flush", "dev", "eth0");
  }
});

/** A pod NIC whose gateways are permanent neighbors that answer neither ARP nor ND; a host is behind them. */
function addSilentNetwork(): { readonly pod: string; readonly own: BridgeWiring } {
  const [host, pod] = [namespaces.add("host"), namespaces.add("pod")];
  const own = guestWiring(1);
  const inHost = (...text: readonly string[]): string => run("ip", "-n", host, ...text);
  const inPod = (...text: readonly string[]): string => run("ip", "-n", pod, ...text);
  const peer = ["type", "veth", "peer", "name", "pod1", "address", own.mac, "netns", pod];
  inHost("link", "add", "eni1", "address", "02:00:00:00:5e:fd", ...peer);
  inHost("link", "set", "eni1", "up");
  inHost("-6", "route", "add", "fd09::5/128", "dev", "eni1");
  inHost("addr", "add", "2001:db8::1/128", "dev", "lo", "nodad");
  inPod("link", "set", "pod1", "up");
  inPod("addr", "add", "10.9.0.5/32", "dev", "pod1");
  inPod("addr", "add", "fd09::5/128", "dev", "pod1", "nodad");
  for (const [family, gateway] of [
    ["-4", "169.254.1.1"],
    ["-6", "fd0f::1"],
  ] as const) {
    inPod(family, "route", "add", gateway, "dev", "pod1");
    inPod(family, "route", "add", "default", "via", gateway, "dev", "pod1", "metric", "50");
    const mac = ["lladdr", "02:00:00:00:5e:fd", "dev", "pod1", "nud", "permanent"];
    inPod("neigh", "add", gateway, ...mac);
  }
  return { pod, own };
}

test("reaches hosts through an IPv6 gateway that does not answer ND, which the guest configured itself", async () => {
  const { pod, own } = addSilentNetwork();
  const guest = namespaces.add("guest");
  const netns = namespaces.open(pod);
  const network = makeNetwork();
  const remembered = await network.readAddresses(netns, "pod1");
  expect(remembered.gatewayMac).toBe("02:00:00:00:5e:fd");
  const wiring = BINDINGS.bridge.buildWiring({ ...own, podAddresses: [], remembered });
  if (wiring?.kind !== "bridge") throw new Error("the pod NIC has no bridge");
  const taps = ["link", "add", own.tapName, "type", "veth", "peer", "name", "eth0"];
  run("ip", "-n", pod, ...taps, "address", own.mac, "netns", guest);
  run("ip", "-n", guest, "link", "set", "eth0", "up");
  await network.wireTap(netns, { ...wiring, owner: 107, queues: 1 });
  expect((await network.observe(netns)).isWired(wiring)).toBe(true);
  const inGuest = (...text: readonly string[]): string => run("ip", "-n", guest, ...text);
  inGuest("addr", "add", "fd09::5/128", "dev", "eth0", "nodad");
  inGuest("-6", "route", "add", "fd0f::1", "dev", "eth0");
  inGuest("-6", "route", "add", "default", "via", "fd0f::1", "dev", "eth0", "metric", "50");
  // The guest's own link-local address is not usable during duplicate address detection.
  await eventually(() => ping(guest, "-6", "2001:db8::1").includes(" 0% packet loss"), {
    withinMs: 15_000,
  });
});

test("returns to the pod NIC with its routes and permanent neighbors", async () => {
  const { pod, own } = addSilentNetwork();
  const netns = namespaces.open(pod);
  const network = makeNetwork();
  // The kernel's own link-local address does not return.
  const list = (): readonly string[] =>
    [
      ["-4", "route"],
      ["-6", "route"],
      ["neigh", "show", "nud", "permanent"],
    ]
      .flatMap((text) => run("ip", "-n", pod, ...text).split("\n"))
      .map((line) => line.trim())
      .filter((line) => line !== "" && !line.startsWith("fe80::/64"))
      .toSorted();
  const before = list();
  expect(before).toContain("169.254.1.1 dev pod1 lladdr 02:00:00:00:5e:fd PERMANENT");
  const paths = await network.readPaths(netns, "pod1");
  if (paths === undefined) throw new Error("the NIC has no routes");
  // The guest has another MAC, so the kernel deletes the neighbors.
  const wiring = { ...own, mac: "02:00:00:00:5e:0f" };
  await network.wireTap(netns, wiring);
  await network.unwireTap(netns, wiring);
  expect(list()).not.toEqual(before);
  const addresses = ["10.9.0.5/32", "fd09::5/128"];
  await network.restoreNic(netns, { name: "pod1", mac: own.mac, addresses, paths });
  expect(list()).toEqual(before);
});
