// SPDX-License-Identifier: Apache-2.0
// Debian's plugins, one row each: the result of ADD, and no leftovers after DEL.
import { spawn, type ChildProcess } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { createCni, findNetworkStatus } from "@patchbay/cni";
import type { AttachmentRequest, Cni, NetworkConfigList, Sandbox } from "@patchbay/core/interfaces";
import { createProcessRunner } from "@patchbay/os";
import { eventually, run } from "@patchbay/support";
import { afterEach, beforeEach, expect, test } from "vitest";
import { CniNode } from "./node.ts";

type Plugins = NetworkConfigList["plugins"];

/** Starts within a second on an idle machine. */
const TIMEOUT = { withinMs: 15_000 };
const ADDRESS = "10.57.0.9";
const DHCP_RANGE = { from: "10.58.0.10", to: "10.58.0.20" };

let node: CniNode;
let sandbox: Sandbox;
let cni: Cni;
const helpers: ChildProcess[] = [];

beforeEach(() => {
  node = new CniNode();
  sandbox = node.addSandbox();
  cni = createCni({
    runner: createProcessRunner(),
    binDirs: ["/usr/lib/cni"],
    family: node.directory,
  });
});

afterEach(() => {
  for (const helper of helpers.splice(0)) helper.kill("SIGKILL");
  node.close();
});

/** Where a plugin stores state outside the pod. */
function rules(): readonly string[] {
  return run("iptables-save")
    .split("\n")
    .filter((line) => line.includes(sandbox.id));
}

/** Traffic shapers of the bridge's ports, without the defaults. */
function shapers(): readonly string[] {
  return run("tc", "qdisc", "show")
    .split("\n")
    .filter((line) => line.includes(" tbf "));
}

interface Row {
  readonly name: string;
  readonly plugins: () => Plugins;
  readonly capabilityArgs?: AttachmentRequest["capabilityArgs"];
  /** The NIC's type by `ip -d link`. */
  readonly kind: string;
  /** Reported addresses; unset: none. */
  readonly ips?: () => readonly string[];
  /** Further expectations while it is attached. */
  readonly look?: () => void;
}

const leased = (): readonly string[] => node.leases("row");
const STATIC = { type: "static", addresses: [{ address: `${ADDRESS}/24` }] };

const ROWS: readonly Row[] = [
  { name: "bridge", kind: "veth", plugins: () => [node.layer2Plugin()] },
  {
    name: "bridge with host-local",
    kind: "veth",
    plugins: () => [node.bridgePlugin()],
    ips: leased,
  },
  {
    name: "bridge with static",
    kind: "veth",
    plugins: () => [{ ...node.layer2Plugin(), ipam: STATIC }],
    ips: () => [ADDRESS],
  },
  {
    name: "macvlan with host-local",
    kind: "macvlan",
    plugins: () => {
      const { ipam } = node.bridgePlugin();
      return [{ type: "macvlan", master: node.addParent(), ipam }];
    },
    ips: leased,
  },
  {
    name: "ptp",
    kind: "veth",
    plugins: () => [{ type: "ptp", ipam: node.bridgePlugin()["ipam"] }],
    ips: leased,
  },
  {
    name: "host-device",
    kind: "veth",
    plugins: () => [{ type: "host-device", device: node.addParent() }],
  },
  {
    name: "a chain of three: bridge, tuning, portmap",
    kind: "veth",
    plugins: () => [
      { ...node.bridgePlugin(), isGateway: true },
      { type: "tuning", mtu: 1380 },
      { type: "portmap", capabilities: { portMappings: true }, snat: true },
    ],
    capabilityArgs: {
      portMappings: [{ hostPort: 18_657, containerPort: 80, protocol: "tcp" }],
    },
    ips: leased,
    look: () => {
      expect(node.links(sandbox)).toMatchObject([{ mtu: 1380 }]);
      expect(rules().join("\n")).toContain("18657");
    },
  },
  {
    name: "bandwidth behind bridge",
    kind: "veth",
    plugins: () => [
      node.bridgePlugin(),
      { type: "bandwidth", ingressRate: 1_000_000, ingressBurst: 1_000_000 },
    ],
    ips: leased,
    look: () => {
      expect(shapers()).toHaveLength(1);
    },
  },
  {
    name: "firewall behind bridge",
    kind: "veth",
    plugins: () => [node.bridgePlugin(), { type: "firewall", backend: "iptables" }],
    ips: leased,
    look: () => {
      expect(run("iptables-save", "-t", "filter")).toContain(leased()[0]);
    },
  },
];

function requestOf(plugins: Plugins, capabilityArgs: Row["capabilityArgs"]): AttachmentRequest {
  return {
    containerId: sandbox.id,
    netnsPath: sandbox.netnsPath,
    interfaceName: "net1",
    config: { cniVersion: "1.0.0", name: "row", plugins },
    args: [["IgnoreUnknown", "1"]],
    capabilityArgs: capabilityArgs ?? {},
  };
}

test.each(ROWS)("$name", async ({ plugins, capabilityArgs, kind, ips, look }) => {
  const request = requestOf(plugins(), capabilityArgs);
  const result = await cni.add(request);
  const reported = findNetworkStatus(result, "ns1/row", "net1");
  expect(node.links(sandbox)).toMatchObject([{ ifname: "net1", linkinfo: { info_kind: kind } }]);
  expect(reported.ips ?? []).toEqual(ips?.() ?? []);
  look?.();
  await cni.del(request, result);
  expect(node.nics(sandbox)).toEqual([]);
  expect([...leased(), ...node.bridgePorts(), ...rules(), ...shapers()]).toEqual([]);
  // A repeated DEL has nothing to do, except host-device, which fails without its NIC.
  if (request.config.plugins[0]?.type !== "host-device") await cni.del(request, result);
});

/** A DHCP server behind the node's bridge, and the plugin's daemon; `said`: the server's output so far. */
async function startDhcp(): Promise<{
  readonly socket: string;
  readonly leases: string;
  readonly said: () => string;
}> {
  const server = node.addSandbox({ uid: "dhcp", namespace: "default", name: "dhcp" });
  const address = { ...STATIC, addresses: [{ address: "10.58.0.1/24" }] };
  await cni.add({
    ...requestOf([{ ...node.layer2Plugin(), ipam: address }], {}),
    containerId: server.id,
    netnsPath: server.netnsPath,
  });
  const leases = join(node.directory, "dnsmasq.leases");
  const { from, to } = DHCP_RANGE;
  const socket = join(node.directory, "dhcp.sock");
  const daemon = spawn("/usr/lib/cni/dhcp", ["daemon", "-socketpath", socket]);
  let output = "";
  daemon.stderr.on("data", (text: Buffer) => {
    output += text.toString();
  });
  helpers.push(
    daemon,
    spawn("ip", [
      "netns",
      "exec",
      server.id,
      "dnsmasq",
      "--keep-in-foreground",
      "--conf-file=/dev/null",
      "--interface=net1",
      "--bind-interfaces",
      "--port=0",
      "--no-ping",
      "--user=root",
      `--dhcp-range=${from},${to},2m`,
      `--dhcp-leasefile=${leases}`,
      "--pid-file=",
      "--dhcp-authoritative",
    ]),
  );
  await eventually(() => existsSync(socket) && existsSync(leases), TIMEOUT);
  return { socket, leases, said: () => output };
}

test("dhcp, with its daemon and a server in a namespace: releases the lease with the NIC", async () => {
  const { socket, leases, said: output } = await startDhcp();
  const ipam = { type: "dhcp", daemonSocketPath: socket };
  const request = requestOf([{ ...node.layer2Plugin(), ipam }], {});
  const result = await cni.add(request);
  const { ips = [] } = findNetworkStatus(result, "ns1/row", "net1");
  expect(ips).toEqual([expect.stringMatching(/^10\.58\.0\.1\d$|^10\.58\.0\.20$/)]);
  expect(readFileSync(leases, "utf8")).toContain(ips[0]);
  await cni.del(request, result);
  expect(node.nics(sandbox)).toEqual([]);
  // Plugins 1.1.1 delete the NIC before the daemon releases the lease, which then expires.
  await eventually(() => output().includes("releasing lease"), TIMEOUT);
});
