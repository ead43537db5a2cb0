// SPDX-License-Identifier: Apache-2.0
// Network definitions of a tenant that refer to the node's NIC, bridge or files.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { KUBEVIRTS, names } from "@patchbay/api";
import { eventually, run } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { AgentMachine } from "../../contract/net-agent/machine.ts";

const TENANT = "tenant";
const TIMEOUT = { withinMs: 10_000 };

let machine: AgentMachine;
/** A node NIC, and a bridge with another NIC as a port. */
let device: string;
let bridge: string;

beforeAll(async () => {
  machine = await AgentMachine.start(async ({ store }) => {
    await store.create(KUBEVIRTS, {
      apiVersion: "kubevirt.io/v1",
      kind: "KubeVirt",
      metadata: { namespace: "default", name: "kubevirt" },
      spec: { configuration: { network: { tenantPolicy: { masters: ["eth1", "eth2"] } } } },
    });
  });
  await machine.addNamespace(TENANT);
  device = machine.node.addParent();
  bridge = machine.node.nameLink("own");
  const uplink = machine.node.nameLink("up");
  run("ip", "link", "add", bridge, "type", "bridge");
  run("ip", "link", "add", uplink, "link", machine.node.addParent(), "type", "macvlan");
  run("ip", "link", "set", uplink, "master", bridge);
});

afterAll(() => machine.close());

/** The report to the tenant, and the NICs of the tenant's pod. */
async function attempt(name: string, plugin: object) {
  const config = JSON.stringify({ cniVersion: "1.0.0", ...plugin });
  await machine.putNad(TENANT, name, config);
  const sandbox = await machine.runPod({ namespace: TENANT, name, networks: `${name}@net1` });
  const reported = await eventually(
    async () => (await machine.errors(TENANT, name))["net1"],
    TIMEOUT,
  );
  return { ...reported, nics: machine.node.nics(sandbox) };
}

test("attack 43: rejects a host-device network that uses a node NIC", async () => {
  const { reason, message, nics } = await attempt("card", { type: "host-device", device });
  expect([reason, nics]).toEqual(["DefinitionForbidden", []]);
  expect(message).toContain('type "host-device" (--tenant-plugins)');
  expect(run("ip", "-o", "link", "show", device)).toContain(device);
});

test("attack 43: rejects a NIC on the node's own bridge", async () => {
  const { reason, message, nics } = await attempt("uplink", { type: "bridge", bridge });
  expect([reason, nics]).toEqual(["DefinitionForbidden", []]);
  expect(message).toContain(`bridge "${bridge}", which is the node's own (--tenant-bridges)`);
});

test("attack 44: rejects host-local with a data directory of the tenant's choice", async () => {
  const dataDir = join(machine.node.directory, "elsewhere");
  const ipam = { type: "host-local", dataDir, subnet: "10.55.4.0/24" };
  const { reason, nics } = await attempt("files", { ...machine.node.layer2Plugin(), ipam });
  expect([reason, nics]).toEqual(["DefinitionForbidden", []]);
  expect(existsSync(dataDir)).toBe(false);
});

/** The requested resource, and the report to the tenant. */
interface Reach {
  readonly name: string;
  readonly plugin: () => object;
  readonly told: () => string;
}

test.each<Reach>([
  {
    name: "ipam",
    plugin: () => ({ ...machine.node.layer2Plugin(), device, ipam: { type: "host-device" } }),
    told: () => 'ipam.type "host-device" (--tenant-ipams)',
  },
  {
    name: "twice",
    plugin: () => ({ ...machine.node.layer2Plugin(), Bridge: bridge }),
    told: () => "Bridge, which plugins take for bridge",
  },
  {
    name: "part",
    plugin: () => ({ type: "bridge", bridge: `${bridge}\0` }),
    told: () => "(--tenant-bridges)",
  },
  {
    name: "uplinkless",
    plugin: () => ({ type: "macvlan" }),
    told: () =>
      "master, without which macvlan takes the link of the default route (--tenant-masters)",
  },
  {
    name: "handed-on",
    plugin: () => ({ type: "own-meta", delegates: [{ type: "host-device", device }] }),
    told: () => 'delegates[0].type "host-device" (--tenant-plugins)',
  },
])("attack 126: rejects alternative spellings of forbidden settings: $name", async (reach) => {
  const ports = (): string => run("ip", "-j", "link", "show", "master", bridge);
  const before = ports();
  const { reason, message, nics } = await attempt(reach.name, reach.plugin());
  expect([reason, nics]).toEqual(["DefinitionForbidden", []]);
  expect(message).toContain(reach.told());
  expect(run("ip", "-o", "link", "show", device)).toContain(device);
  expect(ports()).toBe(before);
});

test("attack 127: DEL never uses an unchecked definition from a status that the pod's author wrote", async () => {
  const executed = join(machine.node.directory, "executed");
  machine.node.addPlugin("canary", `touch ${executed}`);
  const evil = { cniVersion: "1.0.0", type: "canary", logFile: "/etc/cron.d/x" };
  await machine.putNad(TENANT, "evil", JSON.stringify(evil));
  const forged = [{ name: `${TENANT}/evil`, interface: "pod0123456789a", dns: {} }];
  const annotations = { [names.NETWORK_STATUS_ANNOTATION]: JSON.stringify(forged) };
  const pod = { namespace: TENANT, name: "forger" };
  await machine.runPod({ ...pod, networks: "", prepare: () => Promise.resolve(annotations) });
  await eventually(
    async () => (await machine.networkStatus(pod.namespace, pod.name)).length === 0,
    TIMEOUT,
  );
  expect(existsSync(executed)).toBe(false);
});

test("attack 128: rejects addresses of an administrator's network requested by name", async () => {
  const ends = { from: "10.55.0.10", to: "10.55.0.11" };
  await machine.putNad("default", "scarce", [machine.node.bridgePlugin(ends)]);
  const { reason, message, nics } = await attempt("thief", {
    ...machine.node.bridgePlugin(ends),
    name: "scarce",
  });
  expect([reason, nics]).toEqual(["DefinitionForbidden", []]);
  expect(message).toContain('name "scarce", which network default/scarce uses');
  expect(machine.node.leases("scarce")).toEqual([]);
  await machine.runPod({ namespace: TENANT, name: "owner", networks: "default/scarce@net1" });
  await eventually(async () => (await machine.networkStatus(TENANT, "owner")).length > 0, TIMEOUT);
  expect(machine.node.leases("scarce")).toHaveLength(1);
});

test("accepts a tenant's own bridge and an administrator's definition of the node's bridge", async () => {
  await machine.putNad(TENANT, "good", [machine.node.layer2Plugin()]);
  await machine.putNad("default", "uplink", [{ type: "bridge", bridge }]);
  const networks = "good@net1,default/uplink@net2";
  const sandbox = await machine.runPod({ namespace: TENANT, name: "witness", networks });
  await eventually(
    async () => (await machine.networkStatus(TENANT, "witness")).length === 2,
    TIMEOUT,
  );
  expect(machine.node.nics(sandbox)).toEqual(["net1", "net2"]);
});
