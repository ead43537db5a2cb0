// SPDX-License-Identifier: Apache-2.0
// A node of the bench: a network namespace in which net-agent runs plugins. It contains all bridges, so that benches of several
// processes do not disturb each other.
import { spawn, type ChildProcess } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { names, NETWORK_ATTACHMENT_DEFINITIONS } from "@patchbay/api";
import { eventually, run, THIRD_PARTY_PLUGIN } from "@patchbay/support";
import { AgentMachine } from "../machine.ts";
import { NAMESPACE, OTHER_NETWORK } from "./bench-guest.ts";
import { NAME_PREFIX, NAMESPACE_DIR, deleteNamespaces, removeLeftovers } from "./namespaces.ts";
import { BENCH, BEHIND, type BenchPlaces } from "./table.ts";

const TYPE = "third-party";
export const OTHER_GATEWAY = "10.119.99.1";
const LAN = { network: "dhcp", address: "10.119.10.1/24", range: "10.119.10.50,10.119.10.99,1h" };
/** Network by its members `bridge`, for which the plugin sets no addresses. */
const STATIC_BRIDGES = [
  // The bridge plugin cannot set gateways of two IPv4 ranges.
  { network: "two-addresses", address: "10.119.3.1/24" },
  // Several rows create ports at once, and the bridge plugin fails if two calls create the bridge.
  { network: OTHER_NETWORK, address: `${OTHER_GATEWAY}/24` },
  LAN,
];

const BRIDGE_MAC = "02:00:00:00:a5:fe";
/** Seconds that network `slow` needs for ADD. */
const DELAY_SECONDS = Number(process.env["PATCHBAY_SLOW_CNI_SECONDS"] ?? 20);

export interface BenchMachine extends AsyncDisposable {
  readonly agent: AgentMachine;
  readonly places: BenchPlaces;
}

/** The node has hosts behind gateways, and an uplink. */
function addNode(): string {
  const node = `${NAME_PREFIX}node`;
  run("ip", "netns", "add", node);
  const ip = (...words: readonly string[]): string => run("ip", "-n", node, ...words);
  ip("link", "set", "lo", "up");
  ip("addr", "add", `${BEHIND}/32`, "dev", "lo");
  // The kernel answers ARP only for addresses to which it has a route out of another link.
  ip("link", "add", "up0", "type", "veth", "peer", "name", "up1");
  for (const link of ["up0", "up1"]) ip("link", "set", link, "up");
  ip("addr", "add", "198.51.100.1/24", "dev", "up0");
  ip("route", "add", "default", "via", "198.51.100.2");
  return node;
}

function spawnOn(node: string, program: string, ...args: readonly string[]): ChildProcess {
  const within = [`--net=${NAMESPACE_DIR}/${node}`, "--", program, ...args];
  return spawn("nsenter", within, { stdio: "ignore" });
}

function addStaticBridges({ node, bridgeOf }: BenchPlaces): void {
  for (const { network, address } of STATIC_BRIDGES) {
    const bridge = bridgeOf(network);
    // A bridge without a MAC of its own adopts that of a port, and guests cache the gateway's MAC.
    const mac = ["address", BRIDGE_MAC];
    run("ip", "-n", node, "link", "add", bridge, ...mac, "type", "bridge");
    run("ip", "-n", node, "addr", "add", address, "dev", bridge);
    run("ip", "-n", node, "link", "set", bridge, "up");
  }
}

/** A DHCP server in the LAN, and the daemon of the IPAM plugin `dhcp`. */
async function startLan({ node, bridgeOf, dhcpSocket }: BenchPlaces): Promise<void> {
  const server = [
    "--no-daemon",
    "--conf-file=/dev/null",
    "--port=0",
    "--leasefile-ro",
    "--no-ping",
    "--dhcp-ignore-clid",
  ];
  const range = [`--dhcp-range=${LAN.range}`, `--interface=${bridgeOf(LAN.network)}`];
  spawnOn(node, "dnsmasq", ...server, ...range, "--bind-interfaces");
  spawnOn(node, "/usr/lib/cni/dhcp", "daemon", "-socketpath", dhcpSocket);
  await eventually(() => existsSync(dhcpSocket), { withinMs: 10_000 });
}

async function putNetworks(agent: AgentMachine, places: BenchPlaces): Promise<void> {
  for (const { network, settings, storePerNode = false, resource } of BENCH) {
    const bridge = places.bridgeOf(network);
    const more = { bridge, storePerNode, delaySeconds: DELAY_SECONDS, ...settings(places) };
    await agent.putNad(NAMESPACE, network, [{ type: TYPE, behavior: network, ...more }]);
    if (resource === undefined) continue;
    const fields = { metadata: { annotations: { [names.RESOURCE_NAME_ANNOTATION]: resource } } };
    const key = { namespace: NAMESPACE, name: network };
    await agent.admin.store.patch(NETWORK_ATTACHMENT_DEFINITIONS, key, { type: "merge", fields });
  }
  const ranges = [[{ subnet: "10.119.99.0/24" }]];
  const ipam = { type: "host-local", dataDir: places.leaseDir, ranges };
  const bridge = places.bridgeOf(OTHER_NETWORK);
  await agent.putNad(NAMESPACE, OTHER_NETWORK, [{ type: "bridge", bridge, ipam }]);
}

/** Starts everything, and removes it again if a step fails. */
export async function startBench(): Promise<BenchMachine> {
  removeLeftovers();
  await using stack = new AsyncDisposableStack();
  // Namespaces of guests and pods are deleted too, also those of failed rows.
  stack.defer(deleteNamespaces);
  const node = addNode();
  const elsewhere = `${NAME_PREFIX}elsewhere`;
  run("ip", "netns", "add", elsewhere);
  const holder = spawnOn(node, "sleep", "infinity");
  if (holder.pid === undefined) throw new Error("the node has no process");
  const isEntered = (): boolean =>
    run("ip", "netns", "identify", String(holder.pid)).trim() === node;
  await eventually(isEntered, { withinMs: 10_000 });
  const agent = stack.use(
    await AgentMachine.start(undefined, { hostProcess: holder.pid, namePrefix: NAME_PREFIX }),
  );
  agent.node.addPlugin(TYPE, `exec '${process.execPath}' '${THIRD_PARTY_PLUGIN}'`);
  const order = [OTHER_NETWORK, ...BENCH.map(({ network }) => network)];
  const places = {
    node,
    elsewhere,
    leaseDir: agent.node.leaseDir,
    dhcpSocket: join(agent.node.directory, "dhcp.sock"),
    bridgeOf: (network: string) => `br${String(order.indexOf(network))}`,
  };
  addStaticBridges(places);
  await startLan(places);
  await putNetworks(agent, places);
  const owned = stack.move();
  return { agent, places, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}
