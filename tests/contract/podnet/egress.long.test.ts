// SPDX-License-Identifier: Apache-2.0
// A guest on two networks has one default route, and reaches clients beyond the gateways of both networks.
import { names, type Attachment } from "@patchbay/api";
import {
  collectIfaceFacts,
  listExpectedWirings,
  withWired,
  type ServedNic,
} from "@patchbay/core/nics";
import { EMPTY_GUEST_VIEW } from "@patchbay/core/guest";
import { createNamespaces, createProcessRunner } from "@patchbay/os";
import { createDhcpServers } from "@patchbay/podnet";
import type { AddressServer, NetnsHandle } from "@patchbay/core/interfaces";
import { aVmi, eventually, run } from "@patchbay/support";
import { afterEach, expect, test } from "vitest";
import { buildServedNics } from "../../../packages/control-plane/core/src/nics/addresses/served-nic.ts";
import { askIpv4 } from "./dhcp-guest.ts";
import { addHost, addNic, makeNetwork, Namespaces, ping, PREFIX } from "./links.ts";

const namespaces = new Namespaces();
const servers = createDhcpServers({
  runner: createProcessRunner(),
  namespaces: createNamespaces(),
  processFamily: `${PREFIX}-egress`,
});
const running: AddressServer[] = [];
afterEach(async () => {
  for (const server of running.splice(0)) await server.stop();
  namespaces.close();
});

interface Lan {
  readonly name: string;
  /** First three bytes of the subnet, whose gateway is 254 and whose guest is 5. */
  readonly subnet: string;
  readonly subnet6: string;
  /** First three bytes of the subnet behind the gateway, whose client is 2. */
  readonly beyond: string;
  readonly mac: string;
  /** Whether CNI sets the default routes. Otherwise its result only names the IPv4 gateway. */
  readonly isRouted: boolean;
}

const BLUE: Lan = {
  name: "blue",
  subnet: "10.9.0",
  subnet6: "fd09:",
  beyond: "192.0.2",
  mac: "02:00:00:00:5e:01",
  isRouted: true,
};
const RED: Lan = {
  name: "red",
  subnet: "10.8.0",
  subnet6: "fd08:",
  beyond: "198.51.100",
  mac: "02:00:00:00:5e:02",
  isRouted: false,
};
const LANS = [BLUE, RED];
/** A host beyond the gateway to which no network has a route of its own. */
const [OUTER, OUTER_6] = ["203.0.113.1", "2001:db8::1"];

/** A router with the network on `br0`, and a client behind it. */
function addRouter({ name, subnet, subnet6, beyond }: Lan): string {
  const router = addHost(namespaces, name);
  const client = namespaces.add(`${name}-client`);
  const inRouter = (...text: readonly string[]): string => run("ip", "-n", router, ...text);
  inRouter("addr", "add", `${subnet}.254/24`, "dev", "br0");
  inRouter("addr", "add", `${subnet6}:1/64`, "dev", "br0", "nodad");
  inRouter("link", "add", "out0", "type", "veth", "peer", "name", "eth0", "netns", client);
  inRouter("addr", "add", `${beyond}.1/24`, "dev", "out0");
  inRouter("link", "set", "out0", "up");
  run("ip", "netns", "exec", router, "sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward");
  run("ip", "-n", client, "addr", "add", `${beyond}.2/24`, "dev", "eth0");
  run("ip", "-n", client, "link", "set", "eth0", "up");
  run("ip", "-n", client, "route", "add", "default", "via", `${beyond}.1`);
  return router;
}

/** A pod NIC as CNI creates it, with a route to the network's clients. */
function addPodNic(pod: string, podInterfaceName: string, router: string, lan: Lan): void {
  const { subnet, subnet6, beyond, mac, isRouted } = lan;
  addNic({ host: router, pod }, { name: podInterfaceName, kind: "veth", mac });
  const ip = (...text: readonly string[]): string => run("ip", "-n", pod, ...text);
  ip("link", "set", podInterfaceName, "up");
  ip("addr", "add", `${subnet}.5/24`, "dev", podInterfaceName);
  ip("addr", "add", `${subnet6}:5/64`, "dev", podInterfaceName, "nodad");
  ip("route", "add", `${beyond}.0/24`, "via", `${subnet}.254`);
  ip("-6", "route", "add", "default", "via", `${subnet6}:1`, "metric", isRouted ? "10" : "20");
  if (isRouted) ip("route", "add", "default", "via", `${subnet}.254`);
}

/** The VM's interfaces as virt-handler observes them. `chosen` is the interface with the default route. */
async function observe(netns: NetnsHandle, chosen: string | undefined) {
  const network = makeNetwork();
  const podNics = LANS.map((lan, at) => ({ ...lan, podInterfaceName: `pod${String(at)}` }));
  const remembered = [];
  for (const { podInterfaceName } of podNics)
    remembered.push(await network.readAddresses(netns, podInterfaceName));
  const attachments: Attachment[] = podNics.map(({ name, podInterfaceName, mac, subnet }) => ({
    name,
    podInterfaceName,
    state: "Attached",
    mac,
    gateways: [`${subnet}.254`],
  }));
  const vmi = aVmi({ nics: LANS.map(({ name, mac }) => ({ name, mac })) });
  const annotations = chosen === undefined ? {} : { [names.DEFAULT_ROUTE_ANNOTATION]: chosen };
  const metadata = { ...vmi.metadata, annotations };
  const links = (await network.observe(netns)).links;
  const observed = collectIfaceFacts({
    vmi: { ...vmi, metadata, status: { attachments } },
    links,
    remembered,
    nics: [],
    guest: EMPTY_GUEST_VIEW,
    bindings: {},
  });
  const wirings = listExpectedWirings(observed);
  const ifaces = withWired(observed, new Set(wirings.map(({ tapName }) => tapName)));
  return { network, wirings, nics: buildServedNics({ vmi: { ...vmi, metadata }, ifaces }) };
}

/** Applies a lease as a DHCP client does. A second default route of equal metric is an error. */
async function applyLease(guest: string, nic: string): Promise<void> {
  const lease = await eventually(() => askIpv4(guest, nic), { withinMs: 15_000 });
  const { ip = "", mask = "", staticroutes = "" } = lease;
  run("ip", "-n", guest, "addr", "add", `${ip}/${mask}`, "dev", nic);
  const words = staticroutes.split(" ").filter((word) => word !== "");
  for (let at = 0; at < words.length; at += 2) {
    const [destination = "", gateway = ""] = words.slice(at);
    run("ip", "-n", guest, "route", "add", destination, "via", gateway, "dev", nic);
  }
}

async function startGuest(chosen: string | undefined): Promise<{
  readonly guest: string;
  readonly nics: readonly ServedNic[];
}> {
  const [pod, guest] = [namespaces.add("pod"), namespaces.add("guest")];
  for (const [at, lan] of LANS.entries()) addPodNic(pod, `pod${String(at)}`, addRouter(lan), lan);
  const netns = namespaces.open(pod);
  const { network, wirings, nics } = await observe(netns, chosen);
  for (const [at, wiring] of wirings.entries()) {
    if (wiring.kind !== "bridge") throw new Error(`unexpected wiring ${wiring.kind}`);
    const nic = `eth${String(at)}`;
    const peer = ["peer", "name", nic, "address", wiring.mac, "netns", guest];
    run("ip", "-n", pod, "link", "add", wiring.tapName, "type", "veth", ...peer);
    run("ip", "-n", guest, "link", "set", nic, "up");
    await network.wireTap(netns, { ...wiring, owner: 107, queues: 1 });
  }
  for (const nic of nics) running.push(await servers.start(netns, nic));
  for (const [at, { subnet6 }] of LANS.entries()) {
    const dev = `eth${String(at)}`;
    await applyLease(guest, dev);
    run("ip", "-n", guest, "addr", "add", `${subnet6}:5/128`, "dev", dev, "nodad");
  }
  return { guest, nics };
}

test.each([
  { chosen: undefined, router: BLUE, routerNic: "eth0" },
  { chosen: "red", router: RED, routerNic: "eth1" },
])("offered by the first network, or by the one that the VM names: $router.name", async (row) => {
  const { chosen, router, routerNic } = row;
  const { guest, nics } = await startGuest(chosen);
  // Only the router's network leads to the outer host.
  run("ip", "-n", `${PREFIX}-${router.name}`, "route", "add", OUTER, "via", `${router.beyond}.2`);
  run("ip", "-n", `${PREFIX}-${router.name}-client`, "addr", "add", `${OUTER}/32`, "dev", "lo");
  run(
    "ip",
    "-n",
    `${PREFIX}-${router.name}`,
    "addr",
    "add",
    `${OUTER_6}/128`,
    "dev",
    "lo",
    "nodad",
  );
  const defaultRoutes = (family: string): readonly string[] =>
    [...run("ip", "-n", guest, family, "route", "show", "default").matchAll(/dev (\S+)/g)].map(
      ([, nic = ""]) => nic,
    );
  expect(defaultRoutes("-4")).toEqual([routerNic]);
  expect(ping(guest, OUTER)).toContain(" 0% packet loss");
  for (const { subnet, beyond, name } of LANS) {
    expect(ping(guest, `${beyond}.2`)).toContain(" 0% packet loss");
    expect(ping(`${PREFIX}-${name}-client`, `${subnet}.5`)).toContain(" 0% packet loss");
  }
  await eventually(() => defaultRoutes("-6").length > 0, { withinMs: 15_000 });
  expect(ping(guest, "-6", OUTER_6)).toContain(" 0% packet loss");
  expect(defaultRoutes("-6")).toEqual([routerNic]);
  expect(nics.flatMap(({ omissions = [] }) => omissions)).toEqual([]);
});
