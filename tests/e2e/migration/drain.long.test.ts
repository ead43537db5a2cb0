// SPDX-License-Identifier: Apache-2.0
// kubectl drain: the guest has migrated when the drain ends, without downtime.
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
let drained = "";

beforeAll(async () => {
  node = await SecondNode.start(machine, { name: NODE, guestImage: join(ROOT, ".cache/guest") });
  machine.apply(
    vmManifest({ name: VM, nics: NICS, pcieRootPorts: FEW_PORTS, evictionStrategy: "LiveMigrate" }),
  );
  await machine.booted(VM);
  for (const { name } of NICS) await expectReady(VM, name);
});

afterAll(async () => {
  if (drained !== "") machine.kubectl("uncordon", drained);
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
  drained = before?.status?.nodeName ?? "";
  const pods = ["--pod-selector", `vm.kubevirt.io/name=${VM}`];
  const how = ["--force", "--delete-emptydir-data", "--ignore-daemonsets", "--timeout=110s"];
  const output = machine.try(["kubectl", "drain", drained, ...how, ...pods]);
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
