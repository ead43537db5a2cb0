// SPDX-License-Identifier: Apache-2.0
// Network definitions and annotations of a tenant that use up net-agent's memory, or take files, ports, addresses or routes of the node.
import { createServer, type AddressInfo, type Server } from "node:net";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { once } from "node:events";
import { join } from "node:path";
import { KUBEVIRTS, type ClusterTenantPolicy } from "@patchbay/api";
import { eventually, run } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { AgentMachine, unlimitNetworks } from "../../contract/net-agent/machine.ts";

const TENANT = "tenant";
const TIMEOUT = { withinMs: 10_000 };
/** TEST-NET-2 (RFC 5737), which no host uses. */
const POLICY: ClusterTenantPolicy = {
  ranges: ["198.51.100.0/24"],
  clusterNetworks: ["10.244.0.0/16", "10.96.0.0/12"],
};

let machine: AgentMachine;
let server: Server;

beforeAll(async () => {
  server = createServer((socket) => socket.end());
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const port = String((server.address() as AddressInfo).port);
  machine = await AgentMachine.start(async (admin) => {
    await unlimitNetworks(admin);
    await admin.store.create(KUBEVIRTS, {
      apiVersion: "kubevirt.io/v1",
      kind: "KubeVirt",
      metadata: { namespace: "default", name: "kubevirt" },
      spec: { configuration: { network: { tenantPolicy: { ...POLICY, ports: [port] } } } },
    });
  });
  await machine.addNamespace(TENANT);
});
afterAll(async () => {
  await machine.close();
  server.close();
});

function hasLink(name: string): boolean {
  return existsSync(`/sys/class/net/${name}`);
}

async function request(name: string, element: object): Promise<void> {
  const networks = JSON.stringify([{ name, interface: "net1", ...element }]);
  await machine.runPod({ namespace: TENANT, name, networks });
}

/** The report to the tenant. */
async function attempt(name: string, config: object, element: object = {}): Promise<string> {
  await machine.putNad(TENANT, name, JSON.stringify({ cniVersion: "1.0.0", ...config }));
  await request(name, element);
  const error = await eventually(async () => (await machine.errors(TENANT, name))["net1"], TIMEOUT);
  return `${error.reason} ${error.message}`;
}

async function waitUntilAttached(name: string): Promise<void> {
  await eventually(
    async () => (await machine.networkStatus(TENANT, name)).length > 0 || undefined,
    TIMEOUT,
  );
}

test("attack 145: a definition with long names and many forbidden paths gets a short report", async () => {
  const paths = Array.from({ length: 1000 }, (_unused, index) => `/etc/${String(index)}`);
  const before = process.memoryUsage.rss();
  const attemptKey = (name: string, length: number): Promise<string> =>
    attempt(name, { type: "bridge", bridge: "blue", [`${"k".repeat(length)}Dir`]: paths });
  expect(await attemptKey("too-long", 500_000)).toMatch(
    /^NetworkInvalid .*exceeds the limit of 65536 characters/,
  );
  const report = await attemptKey("long", 40_000);
  expect(report).toMatch(/^DefinitionForbidden .*kkk….*at which the check stopped/);
  expect(report.length).toBeLessThan(8192);
  expect(process.memoryUsage.rss() - before).toBeLessThan(256 * 2 ** 20);
});

test("attack 146: no plugin gets the path of a file from a tenant's definition", async () => {
  const victim = join(machine.node.directory, "victim");
  const received = join(machine.node.directory, "received");
  writeFileSync(victim, "text");
  const script = `[ "$CNI_COMMAND" != ADD ] || cat > ${received}; echo '{"cniVersion":"1.0.0"}'`;
  machine.node.addPlugin("canary", script);
  const forged = { runtimeConfig: { CNIDeviceInfoFile: victim }, args: {}, prevResult: {} };
  await machine.putNad(
    TENANT,
    "file",
    JSON.stringify({ cniVersion: "1.0.0", type: "canary", ...forged }),
  );
  await request("file", {});
  const sent = await eventually(() => {
    const text = existsSync(received) ? readFileSync(received, "utf8") : "";
    return Promise.resolve(text === "" ? undefined : text);
  }, TIMEOUT);
  expect(sent).toContain('"type":"canary"');
  expect(sent).not.toMatch(/victim|runtimeConfig|args|prevResult/);
  expect(existsSync(victim)).toBe(true);
});

test("attack 147: no pod of a tenant gets a port of the node", async () => {
  const plugins = [
    machine.node.bridgePlugin({ from: "10.55.0.30", to: "10.55.0.40" }),
    { type: "portmap", capabilities: { portMappings: true } },
  ];
  await machine.putNad("default", "ports", plugins);
  const { port } = server.address() as AddressInfo;
  const told: string[] = [];
  for (const [name, hostPort] of [
    ["listening", port],
    ["not-named", 10_250],
  ] as const) {
    const portMappings = [{ hostPort, containerPort: 80, protocol: "tcp" }];
    const element = { name: "ports", namespace: "default", interface: "net1", portMappings };
    await machine.runPod({ namespace: TENANT, name, networks: JSON.stringify([element]) });
    const error = await eventually(
      async () => (await machine.errors(TENANT, name))["net1"],
      TIMEOUT,
    );
    told.push(`${error.reason} ${error.message}`);
  }
  expect(told[0]).toMatch(/^RequestForbidden .*on which the node listens/);
  expect(told[1]).toMatch(
    /^RequestForbidden .*10250, which no administrator has allowed .*--tenant-ports.*tenantPolicy/,
  );
  expect(run("iptables-save", "-t", "nat")).not.toMatch(
    new RegExp(String.raw`--dport(s)? (${String(port)}|10250)\b`),
  );
});

const fixed = (address: string) => ({ type: "static", addresses: [{ address }] });

test.each([
  { name: "victim", ipam: fixed("10.244.1.5/28"), told: "which is in no range" },
  { name: "service", ipam: fixed("10.96.0.1/32"), told: "which is in no range" },
  { name: "masked", gateway: { ipMasq: true }, ipam: fixed("10.244.1.5/28"), told: "for ipMasq" },
  { name: "ptp", gateway: { type: "ptp" }, ipam: fixed("10.244.1.5/28"), told: "for type ptp" },
  {
    name: "requested",
    gateway: { isGateway: true, capabilities: { ips: true } },
    ipam: { type: "static" },
    element: { ips: ["10.244.1.5/28"] },
    told: 'requested ips[0] "10.244.1.5/28"',
  },
  { name: "dhcp", ipam: { type: "dhcp" }, told: "whose addresses for isGateway are unknown" },
])(
  "attack 148: no network of a tenant gives the node an address or route: $name",
  async ({ name, gateway = { isGateway: true }, ipam, element, told }) => {
    const bridge = machine.node.nameLink(name.slice(0, 3));
    const plugin = { type: "bridge", bridge, ...gateway, ipam };
    const report = await attempt(name, plugin, element);
    expect(report).toMatch(/^DefinitionForbidden /);
    expect(report).toContain(told);
    expect(hasLink(bridge)).toBe(false);
    expect(run("ip", "-4", "route", "show", "root", "10.244.1.0/24")).toBe("");
  },
);

test.each([
  { name: "by ips", element: { ips: ["10.244.1.5/28"] } },
  { name: "by cni-args", element: { "cni-args": { ips: ["10.244.1.5/28"] } } },
])(
  "attack 148: no pod gives the node an address by an administrator's network: $name",
  async ({ name, element }) => {
    const bridge = machine.node.nameLink(name.slice(-3));
    const network = `open-${name.slice(-3)}`;
    const plugin = { type: "bridge", bridge, isGateway: true, capabilities: { ips: true } };
    await machine.putNad("default", network, [{ ...plugin, ipam: { type: "static" } }]);
    const pod = `asks-${name.slice(-3)}`;
    const selection = { name: network, namespace: "default", interface: "net1", ...element };
    await machine.runPod({ namespace: TENANT, name: pod, networks: JSON.stringify([selection]) });
    const error = await eventually(
      async () => (await machine.errors(TENANT, pod))["net1"],
      TIMEOUT,
    );
    expect(error).toMatchObject({
      reason: "RequestForbidden",
      message: expect.stringMatching(/"10\.244\.1\.5\/28", which is in no range/) as string,
    });
    expect(hasLink(bridge)).toBe(false);
  },
);

test("attack 148: a route of the node disables the ranges that overlap it", async () => {
  const link = machine.node.addParent();
  run("ip", "address", "add", "198.51.100.200/28", "dev", link);
  const bridge = machine.node.nameLink("ovl");
  const plugin = { type: "bridge", bridge, isGateway: true, ipam: fixed("198.51.100.5/28") };
  expect(await attempt("overlap", plugin)).toMatch(
    /range 198\.51\.100\.0\/24 overlaps 198\.51\.100\.\d+\/\d+ of link \S+ of the node/,
  );
  run("ip", "address", "del", "198.51.100.200/28", "dev", link);
});

test("attaches a tenant's network with a gateway in an allowed range, for several pods", async () => {
  const bridge = machine.node.nameLink("ok");
  const ipam = { type: "host-local", dataDir: machine.node.leaseDir, subnet: "198.51.100.64/27" };
  const config = { cniVersion: "1.0.0", type: "bridge", bridge, isGateway: true, ipam };
  await machine.putNad(TENANT, "allowed", JSON.stringify(config));
  for (const name of ["one", "two"]) {
    await machine.runPod({ namespace: TENANT, name, networks: "allowed@net1" });
    await waitUntilAttached(name);
  }
  expect(run("ip", "-4", "address", "show", "dev", bridge)).toContain("198.51.100.65/27");
  const other = { type: "bridge", bridge: machine.node.nameLink("no"), isGateway: true };
  expect(await attempt("thief", { ...other, ipam: fixed("198.51.100.70/28") })).toContain(
    `of link ${bridge} of the node`,
  );
});
