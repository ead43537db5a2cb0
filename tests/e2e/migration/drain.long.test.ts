// SPDX-License-Identifier: Apache-2.0
// kubectl drain: the guest has migrated when the drain ends, without downtime. A drain without a target ends with its cordon.
import { join } from "node:path";
import { eventually, FEW_PORTS, SecondNode, vmManifest } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { CHANGE_MS, expectReady, machine } from "../machine.ts";
import { ROOT } from "../standalone.ts";
import { launchersOf } from "./two-nodes.ts";

const NODE = "node-2";
const VM = "leaver";
const NICS = [
  { name: "default", binding: "masquerade" },
  { name: "both", network: "red" },
] as const;
const MIGRATION = "kubevirt-evacuation-";

let node: SecondNode | undefined;

const DRAIN_FLAGS = [
  `--pod-selector=vm.kubevirt.io/name=${VM}`,
  "--force",
  "--delete-emptydir-data",
  "--ignore-daemonsets",
];

function listNodes(): readonly string[] {
  return machine.kubectl("get", "nodes", "-o", "name").trim().split("\n");
}

function uncordonAll(): void {
  for (const name of listNodes()) machine.kubectl("uncordon", name);
}

beforeAll(async () => {
  node = await SecondNode.start(machine, { name: NODE, guestImage: join(ROOT, ".cache/guest") });
  machine.apply(
    vmManifest({ name: VM, nics: NICS, pcieRootPorts: FEW_PORTS, evictionStrategy: "LiveMigrate" }),
  );
  await machine.booted(VM);
  for (const { name } of NICS) await expectReady(VM, name);
});

afterAll(async () => {
  uncordonAll();
  machine.deleteIfPresent("vm", VM);
  await node?.end();
});

test("a drain ends when the guest runs on the other node as the same guest", async () => {
  const isMigratable = (): boolean =>
    machine
      .findVmi(VM)
      ?.status?.conditions?.some(
        ({ type, status }) => type === "LiveMigratable" && status === "True",
      ) === true;
  await eventually(isMigratable, { withinMs: CHANGE_MS });
  const before = machine.findVmi(VM);
  const drained = before?.status?.nodeName ?? "";
  const output = machine.try(["kubectl", "drain", drained, ...DRAIN_FLAGS, "--timeout=110s"]);
  expect(`${output.stdout}${output.stderr}`).toContain(
    `Eviction triggered evacuation of VMI "default/${VM}"`,
  );
  expect(output.stdout).toContain(`node/${drained} drained`);
  const { metadata, status } = machine.findVmi(VM) ?? {};
  expect(metadata?.uid).toBe(before?.metadata.uid);
  expect(status?.phase).toBe("Running");
  expect(status?.nodeName).not.toBe(drained);
  expect(status).not.toHaveProperty("evacuationNodeName");
  await eventually(() => launchersOf(VM).length === 1, { withinMs: CHANGE_MS });
  expect((await machine.console(VM).run("report")).code).toBe(0);
  const made = machine.kubectl("get", "vmim", "-o", "name").split("\n");
  expect(made.filter((name) => name.includes(MIGRATION))).toHaveLength(1);
});

test("an eviction without a target ends when its node is uncordoned", async () => {
  uncordonAll();
  const home = machine.findVmi(VM)?.status?.nodeName ?? "";
  for (const name of listNodes()) machine.kubectl("cordon", name);
  const output = machine.try(["kubectl", "drain", home, ...DRAIN_FLAGS, "--timeout=6s"]);
  expect(output.code).not.toBe(0);
  const findStatus = () => machine.findVmi(VM)?.status;
  await eventually(() => findStatus()?.drainedNodeName === home, { withinMs: CHANGE_MS });
  expect(findStatus()?.evacuationNodeName).toBe(home);
  uncordonAll();
  await eventually(() => findStatus()?.evacuationNodeName === undefined, { withinMs: CHANGE_MS });
  expect(findStatus()).not.toHaveProperty("drainedNodeName");
  expect(findStatus()?.nodeName).toBe(home);
});
