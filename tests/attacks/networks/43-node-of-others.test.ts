// SPDX-License-Identifier: Apache-2.0
// Whoever may write network definitions in a namespace of their own reaches for the node: its NIC, its bridge, its files.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { eventually, run } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { AgentMachine } from "../../contract/net-agent/machine.ts";

const TENANT = "tenant";
const WITHIN = { withinMs: 10_000 };

let machine: AgentMachine;
/** A NIC of the node, and a bridge that another one is a port of. */
let device: string;
let bridge: string;

beforeAll(async () => {
  machine = await AgentMachine.start();
  await machine.addNamespace(TENANT);
  device = machine.node.addParent();
  bridge = machine.node.nameLink("own");
  const uplink = machine.node.nameLink("up");
  run("ip", "link", "add", bridge, "type", "bridge");
  run("ip", "link", "add", uplink, "link", machine.node.addParent(), "type", "macvlan");
  run("ip", "link", "set", uplink, "master", bridge);
});

afterAll(() => machine.close());

/** What the tenant is told, and the NICs of the tenant's pod. */
async function attempt(name: string, plugin: object) {
  const config = JSON.stringify({ cniVersion: "1.0.0", ...plugin });
  await machine.putNad(TENANT, name, config);
  const sandbox = await machine.runPod({ namespace: TENANT, name, networks: `${name}@net1` });
  const told = await eventually(async () => (await machine.errors(TENANT, name))["net1"], WITHIN);
  return { ...told, nics: machine.node.nics(sandbox) };
}

test("attack 43: host-device takes a NIC of the node", async () => {
  const { reason, message, nics } = await attempt("card", { type: "host-device", device });
  expect([reason, nics]).toEqual(["DefinitionForbidden", []]);
  expect(message).toContain('type "host-device" (--tenant-plugins)');
  expect(run("ip", "-o", "link", "show", device)).toContain(device);
});

test("attack 43: a NIC on the node's own bridge", async () => {
  const { reason, message, nics } = await attempt("uplink", { type: "bridge", bridge });
  expect([reason, nics]).toEqual(["DefinitionForbidden", []]);
  expect(message).toContain(`bridge "${bridge}", which is the node's own (--tenant-bridges)`);
});

test("attack 44: host-local writes where it is told", async () => {
  const dataDir = join(machine.node.directory, "elsewhere");
  const ipam = { type: "host-local", dataDir, subnet: "10.55.4.0/24" };
  const { reason, nics } = await attempt("files", { ...machine.node.layer2Plugin(), ipam });
  expect([reason, nics]).toEqual(["DefinitionForbidden", []]);
  expect(existsSync(dataDir)).toBe(false);
});

test("a bridge of the tenant's own serves, and so does an administrator's definition of the node's", async () => {
  await machine.putNad(TENANT, "good", [machine.node.layer2Plugin()]);
  await machine.putNad("default", "uplink", [{ type: "bridge", bridge }]);
  const networks = "good@net1,default/uplink@net2";
  const sandbox = await machine.runPod({ namespace: TENANT, name: "witness", networks });
  await eventually(
    async () => (await machine.networkStatus(TENANT, "witness")).length === 2,
    WITHIN,
  );
  expect(machine.node.nics(sandbox)).toEqual(["net1", "net2"]);
});
