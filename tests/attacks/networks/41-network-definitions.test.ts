// SPDX-License-Identifier: Apache-2.0
// Network definitions and annotations that try to run something other than CNI plugins.
import { chmodSync, existsSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { eventually } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { AgentMachine, unlimitNetworks } from "../../contract/net-agent/machine.ts";

const TIMEOUT = { withinMs: 10_000 };
const NAMESPACE = "default";

let machine: AgentMachine;
let count = 0;

const evidence = (): string => join(machine.node.directory, "executed");

beforeAll(async () => {
  machine = await AgentMachine.start(unlimitNetworks);
  // A program beside the plugin directory that must not run.
  machine.node.addPlugin("harmless", "exit 1");
  const canary = join(machine.node.directory, "canary");
  writeFileSync(canary, `#!/bin/sh\ntouch ${evidence()}\n`);
  chmodSync(canary, 0o755);
  await machine.putNad(NAMESPACE, "good", [machine.node.layer2Plugin()]);
});

afterAll(async () => {
  await machine.close();
});

/** The reason for the rejection, and the pod's NICs. */
async function attempt(networks: string): Promise<readonly unknown[]> {
  count += 1;
  const name = `pod-${String(count)}`;
  const sandbox = await machine.runPod({ namespace: NAMESPACE, name, networks });
  const errors = await eventually(async () => {
    const found = Object.values(await machine.errors(NAMESPACE, name));
    return found.length > 0 ? found : undefined;
  }, TIMEOUT);
  return [...errors.map(({ reason }) => reason), ...machine.node.nics(sandbox)];
}

/** Tries a definition; the caller checks the side effects. */
async function tryConfig(config: string): Promise<readonly unknown[]> {
  count += 1;
  const name = `bad-${String(count)}`;
  await machine.putNad(NAMESPACE, name, config);
  return attempt(name);
}

/** The agent is alive and serves others. */
async function expectServing(): Promise<void> {
  count += 1;
  const name = `witness-${String(count)}`;
  await machine.runPod({ namespace: NAMESPACE, name, networks: "good" });
  await eventually(async () => (await machine.networkStatus(NAMESPACE, name)).length > 0, TIMEOUT);
}

const TYPES = ["../canary", "/bin/sh", "bridge\n../canary", "$(../canary)", "..", ""];

test.each(TYPES)("attack 41: rejects plugin type %j", async (type) => {
  const [reason, ...nics] = await tryConfig(JSON.stringify({ cniVersion: "1.0.0", type }));
  expect(["NetworkInvalid", "PluginMissing", "CniFailed"]).toContain(reason);
  expect(nics).toEqual([]);
  expect(existsSync(evidence())).toBe(false);
});

test.each(TYPES.slice(0, -1))("attack 41: rejects IPAM type %j", async (type) => {
  const plugin = { ...machine.node.bridgePlugin(), ipam: { type } };
  const [reason] = await tryConfig(JSON.stringify({ cniVersion: "1.0.0", ...plugin }));
  expect(["NetworkInvalid", "PluginMissing", "CniFailed"]).toContain(reason);
  expect(existsSync(evidence())).toBe(false);
});

const DEEP = `${'{"a":'.repeat(10_000)}1${"}".repeat(10_000)}`;

test.each([
  { name: "10,000 levels", config: `{"cniVersion":"1.0.0","type":"nowhere","deep":${DEEP}}` },
  { name: "10,000 nested levels only", config: DEEP },
  { name: "a megabyte", config: `{"type":"nowhere","x":"${"x".repeat(1_000_000)}"}` },
  { name: "__proto__", config: '{"__proto__":{"type":"harmless"},"cniVersion":"1.0.0"}' },
  {
    name: "constructor and __proto__ in a list",
    config: '{"plugins":[{"__proto__":{"type":"harmless"},"constructor":{"prototype":{}}}]}',
  },
])("attack 42: rejects a definition of $name", async ({ config }) => {
  const [reason, ...nics] = await tryConfig(config);
  expect(["NetworkInvalid", "PluginMissing", "CniFailed"]).toContain(reason);
  expect(nics).toEqual([]);
  expect(Object.prototype).not.toHaveProperty("type");
  await expectServing();
});

test.each([
  { name: "a MAC with another argument", element: { mac: "02:00:00:00:00:01;IP=1.2.3.4" } },
  {
    name: "an address with another argument",
    element: { ips: ["10.0.0.1;MAC=02:00:00:00:00:01"] },
  },
])("attack 42: rejects cni-args by $name", async ({ element }) => {
  expect(await attempt(JSON.stringify([{ name: "good", ...element }]))).toEqual(["RequestInvalid"]);
});

test("attack 42: ignores cni-args that name another plugin", async () => {
  const args = { type: "../canary", __proto__: { type: "../canary" }, ipam: { type: "../canary" } };
  const networks = JSON.stringify([{ name: "good", "cni-args": args }]);
  const name = "args";
  await machine.runPod({ namespace: NAMESPACE, name, networks });
  await eventually(async () => (await machine.networkStatus(NAMESPACE, name)).length > 0, TIMEOUT);
  expect(existsSync(evidence())).toBe(false);
});

test.each([{ "kernel.hostname": "evil" }, { "../../kernel/hostname": "evil" }])(
  "attack 45: rejects tuning of %j",
  async (sysctl) => {
    const before = hostname();
    const plugins = [machine.node.layer2Plugin(), { type: "tuning", sysctl }];
    const outcome = await tryConfig(JSON.stringify({ cniVersion: "1.0.0", plugins }));
    expect(outcome).toEqual(["CniFailed"]);
    expect(hostname()).toBe(before);
  },
);

test("attack 46: rejects a macvlan on lo", async () => {
  const config = { cniVersion: "1.0.0", type: "macvlan", master: "lo" };
  expect(await tryConfig(JSON.stringify(config))).toEqual(["CniFailed"]);
});

test("attack 47: rejects a NIC called lo", async () => {
  expect(await attempt("good@lo")).toEqual(["InterfaceNameTaken"]);
});

test.each(["../x", "x".repeat(200), "..", "a:b", "a b"])(
  "attack 47: rejects a NIC called %j",
  async (link) => {
    const networks = JSON.stringify([{ name: "good", interface: link }]);
    expect(await attempt(networks)).toEqual(["AnnotationInvalid"]);
  },
);
