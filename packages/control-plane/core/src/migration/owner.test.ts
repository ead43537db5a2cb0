// SPDX-License-Identifier: Apache-2.0
// Whose is the guest, and which pod is the owner's? Before, in and after migrations.
import type { MigrationState, VirtualMachineInstance, VmiStatus } from "@patchbay/api";
import { aPod, aVmi } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import {
  isLauncherOf,
  launcherOn,
  launcherPodName,
  openMigration,
  ownerPodName,
  targetView,
} from "./owner.ts";

const FIRST = launcherPodName(aVmi());
const MIGRATED = launcherPodName(aVmi(), "m1");
const ON_BOTH = { one: "a", two: "b" };

/** From node a to node b. */
const MOVE: MigrationState = {
  migrationUid: "m1",
  sourceNode: "a",
  sourcePod: FIRST,
  targetNode: "b",
  targetPod: MIGRATED,
};
/** And back, afterwards. */
const BACK: MigrationState = {
  migrationUid: "m2",
  sourceNode: "b",
  sourcePod: MIGRATED,
  targetNode: "a",
};
const OVER = { completed: true, endTimestamp: "2026-01-01T00:00:00Z" };

function vmiIn(nodeName: string, migrationState?: MigrationState): VirtualMachineInstance {
  const status: VmiStatus = { phase: "Running", nodeName, activePods: ON_BOTH };
  return aVmi({ status: migrationState === undefined ? status : { ...status, migrationState } });
}

describe("a launcher's name", () => {
  test("is a valid pod name, however long the VMI's is", () => {
    const vmi = aVmi();
    const name = launcherPodName({
      ...vmi,
      metadata: { ...vmi.metadata, name: "v".repeat(253) },
    });
    expect(name).toHaveLength(253);
    expect(name).toMatch(/^virt-launcher-v+-51ce5$/);
  });

  test("differs from one migration to the next", () => {
    const all = [undefined, "m1", "m2"].map((uid) => launcherPodName(aVmi(), uid));
    expect(new Set(all).size).toBe(3);
  });
});

describe("the owner and its pod", () => {
  test.each<{
    name: string;
    vmi: VirtualMachineInstance;
    pod: string;
    open: boolean;
    roles: readonly (string | undefined)[];
  }>([
    { name: "no migration", vmi: vmiIn("a"), pod: FIRST, open: false, roles: ["owner", undefined] },
    {
      name: "a migration begins",
      vmi: vmiIn("a", MOVE),
      pod: FIRST,
      open: true,
      roles: ["owner", "target"],
    },
    {
      name: "the guest runs at the target",
      vmi: vmiIn("b", { ...MOVE, targetNodeDomainReadyTimestamp: "2026-01-01T00:00:00Z" }),
      pod: MIGRATED,
      open: true,
      roles: [undefined, "owner"],
    },
    {
      name: "the migration has ended",
      vmi: vmiIn("b", { ...MOVE, ...OVER }),
      pod: MIGRATED,
      open: false,
      roles: [undefined, "owner"],
    },
    {
      name: "the migration has failed and is not closed",
      vmi: vmiIn("a", { ...MOVE, failed: true }),
      pod: FIRST,
      open: true,
      roles: ["owner", "target"],
    },
    {
      name: "the migration has failed and is closed",
      vmi: vmiIn("a", { ...MOVE, ...OVER, failed: true }),
      pod: FIRST,
      open: false,
      roles: ["owner", undefined],
    },
    {
      name: "the migration back begins",
      vmi: vmiIn("b", BACK),
      pod: MIGRATED,
      open: true,
      roles: ["target", "owner"],
    },
    {
      name: "the migration back has failed",
      vmi: vmiIn("b", { ...BACK, ...OVER, failed: true }),
      pod: MIGRATED,
      open: false,
      roles: [undefined, "owner"],
    },
    {
      name: "the migration back has ended",
      vmi: vmiIn("a", { ...BACK, ...OVER }),
      pod: launcherPodName(aVmi(), "m2"),
      open: false,
      roles: ["owner", undefined],
    },
  ])("$name", ({ vmi, pod, open, roles }) => {
    expect(ownerPodName(vmi)).toBe(pod);
    expect(openMigration(vmi) !== undefined).toBe(open);
    expect(["a", "b"].map((node) => launcherOn(vmi, node)?.role)).toEqual(roles);
    const owner = roles.indexOf("owner");
    expect(launcherOn(vmi, ["a", "b"][owner] ?? "")).toEqual({
      uid: ["one", "two"][owner],
      name: pod,
      role: "owner",
    });
  });

  test("the target's pod has the migration's name", () => {
    expect(launcherOn(vmiIn("a", MOVE), "b")).toEqual({
      uid: "two",
      name: MIGRATED,
      role: "target",
    });
  });

  test.each([
    { name: "no pod on the node", vmi: vmiIn("c") },
    { name: "no pod on any node", vmi: aVmi({ status: { nodeName: "c" } }) },
  ])("$name: returns no launcher", ({ vmi }) => {
    expect(launcherOn(vmi, "c")).toBeUndefined();
  });

  test("before the node is known, the pod on its node owns the VMI", () => {
    const vmi = aVmi({ status: { activePods: { one: "a" } } });
    expect(launcherOn(vmi, "a")).toEqual({ uid: "one", name: FIRST, role: "owner" });
  });
});

test("a migration without a uid does not count", () => {
  expect(openMigration(vmiIn("a", { targetNode: "b" }))).toBeUndefined();
});

test("only the owner's pod is the launcher", () => {
  const podOf = (name: string) => {
    const pod = aPod();
    const kind = { apiVersion: "kubevirt.io/v1", kind: "VirtualMachineInstance", name: "vm1" };
    const ownerReferences = [{ ...kind, uid: "vmi-uid", controller: true }];
    return { ...pod, metadata: { ...pod.metadata, name, ownerReferences } };
  };
  const areLaunchers = (vmi: VirtualMachineInstance) =>
    [FIRST, MIGRATED].map((name) => isLauncherOf(podOf(name), vmi));
  expect(areLaunchers(vmiIn("a", MOVE))).toEqual([true, false]);
  expect(areLaunchers(vmiIn("b", MOVE))).toEqual([false, true]);
});

test("the target sees its own pod's attachments, and no reports of the source", () => {
  const attachment = { name: "one", podInterfaceName: "pod1", state: "Attached" } as const;
  const vmi = vmiIn("a", { ...MOVE, targetAttachments: [attachment] });
  const other = { ...attachment, podInterfaceName: "pod2" };
  const status = { ...vmi.status, attachments: [other], interfaces: [{ name: "one" }] };
  expect(targetView({ ...vmi, status }).status).toMatchObject({
    nodeName: "a",
    attachments: [attachment],
    interfaces: [],
  });
  expect(targetView(vmiIn("a")).status?.attachments).toEqual([]);
});

test("the target uses the guest's MACs if the spec sets none", () => {
  const vmi = vmiIn("a", MOVE);
  const interfaces = [
    { name: "one", masquerade: {} },
    { name: "two", bridge: {}, macAddress: "02:00:00:00:00:02" },
    { name: "three", bridge: {} },
    { name: "four", bridge: {} },
  ];
  const { spec } = vmi;
  const devices = { ...spec.domain.devices, interfaces };
  const view = targetView({
    ...vmi,
    spec: { ...spec, domain: { ...spec.domain, devices } },
    status: {
      ...vmi.status,
      interfaces: [
        { name: "one", mac: "02:00:00:00:00:01" },
        { name: "two", mac: "02:00:00:00:00:09" },
        { name: "three", mac: "none" },
      ],
    },
  });
  expect(view.spec.domain.devices?.interfaces?.map(({ macAddress }) => macAddress)).toEqual([
    "02:00:00:00:00:01",
    "02:00:00:00:00:02",
    undefined,
    undefined,
  ]);
});
