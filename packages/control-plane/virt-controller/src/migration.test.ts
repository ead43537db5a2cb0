// SPDX-License-Identifier: Apache-2.0
// virt-controller's part of a successful and a failed migration, step by step, with the status of each object.
import { names } from "@patchbay/api";
import { describe, expect, test } from "vitest";
import { LAUNCHER } from "./testing/launched-vmi.ts";
import { aMigration, Migrating, UID } from "./testing/migrating.ts";

describe("a migrating guest", () => {
  test("gets a second pod on another node, named after the migration", async () => {
    const story = await Migrating.begin();
    const { metadata, spec } = await story.target();
    expect(metadata.labels).toMatchObject({ "kubevirt.io/migrationJobUID": UID });
    expect(metadata.labels).not.toHaveProperty(names.NODE_NAME_LABEL);
    expect(metadata.annotations).toMatchObject({ "kubevirt.io/migrationJobName": "move-m1" });
    expect(spec.affinity).toMatchObject({
      podAntiAffinity: {
        requiredDuringSchedulingIgnoredDuringExecution: [
          {
            labelSelector: { matchLabels: { [names.CREATED_BY_LABEL]: "vmi-uid" } },
            topologyKey: "kubernetes.io/hostname",
          },
        ],
      },
    });
    expect(await story.phase()).toBe("Scheduling");
    const { labels, finalizers } = (await story.migration())?.metadata ?? {};
    expect(labels).toEqual({ "kubevirt.io/vmi-name": "vm1" });
    expect(finalizers).toEqual(["kubevirt.io/migrationJobFinalize"]);
    expect((await story.vmi()).status?.migrationState).toBeUndefined();
  });

  test("is announced in the VMI's status and label once the pod is ready", async () => {
    const story = await Migrating.begin();
    await story.runTarget();
    const { metadata, status } = await story.vmi();
    const target = await story.target();
    expect(status?.migrationState).toMatchObject({
      migrationUid: UID,
      sourceNode: "node1",
      sourcePod: LAUNCHER,
      targetNode: "node2",
      targetPod: target.metadata.name,
      targetAttachments: [{ name: "one", networkName: "default/blue", state: "Attached" }],
      migrationConfiguration: { progressTimeout: 150, maxDowntimeMs: 900 },
    });
    const uid = target.metadata.uid ?? "";
    expect(status?.activePods).toEqual({ "pod-uid": "node1", [uid]: "node2" });
    expect(status?.nodeName).toBe("node1");
    expect(metadata.labels).toMatchObject({
      [names.NODE_NAME_LABEL]: "node1",
      "kubevirt.io/migrationTargetNodeName": "node2",
    });
    expect(await story.phase()).toBe("PreparingTarget");
  });

  test("passes every phase, in the status of both objects", async () => {
    const story = await Migrating.begin();
    await story.runUntilSending();
    expect(await story.phase()).toBe("Running");
    await story.arrive();
    const { status } = (await story.migration()) ?? {};
    expect(status?.phaseTransitionTimestamps?.map(({ phase }) => phase)).toEqual([
      "Pending",
      "Scheduling",
      "Scheduled",
      "PreparingTarget",
      "TargetReady",
      "Running",
      "Succeeded",
    ]);
    expect(status?.migrationState).toMatchObject({ completed: true, mode: "PreCopy" });
    expect(story.bench.events).toEqual([
      "VirtualMachineInstanceMigration Normal SuccessfulCreate: migration move-m1 has a target pod",
      ...["VirtualMachineInstanceMigration", "VirtualMachineInstance"].map(
        (kind) =>
          `${kind} Normal SuccessfulHandOver: target pod ${status?.migrationState?.targetPod ?? ""} is ready: node node2 prepares it for the guest`,
      ),
      ...["VirtualMachineInstanceMigration", "VirtualMachineInstance"].map(
        (kind) => `${kind} Normal Migrating: the guest moves from node node1 to node node2`,
      ),
      ...["VirtualMachineInstanceMigration", "VirtualMachineInstance"].map(
        (kind) =>
          `${kind} Normal SuccessfulMigration: the guest has moved from node node1 to node node2`,
      ),
    ]);
  });

  test("belongs to the target afterwards, and its old pod is deleted", async () => {
    const story = await Migrating.begin();
    await story.runUntilSending();
    await story.arrive();
    const { metadata, status } = await story.vmi();
    const target = await story.target();
    expect(status).toMatchObject({
      phase: "Running",
      nodeName: "node2",
      activePods: { [target.metadata.uid ?? ""]: "node2" },
      attachments: [{ name: "one", state: "Attached" }],
    });
    expect(status?.migrationState).toMatchObject({
      completed: true,
      endTimestamp: expect.any(String) as string,
    });
    expect(status?.migrationState).not.toHaveProperty("targetAttachments");
    expect(status?.migrationState).not.toHaveProperty("failed");
    expect(metadata.labels).toMatchObject({ [names.NODE_NAME_LABEL]: "node2" });
    expect(metadata.labels).not.toHaveProperty("kubevirt.io/migrationTargetNodeName");
    expect(await story.findSource()).toBeUndefined();
  });

  test("migrates back, and the intermediate pod is deleted", async () => {
    const story = await Migrating.begin();
    await story.runUntilSending();
    await story.arrive();
    const back = aMigration("m2", { creationTimestamp: "2026-01-01T00:01:00Z" });
    await story.createMigration(back);
    await story.runTarget("m2", {}, "node1");
    await story.listen();
    await story.send();
    await story.arrive();
    expect(await story.phase("m2")).toBe("Succeeded");
    expect((await story.vmi()).status?.nodeName).toBe("node1");
    expect(await story.findTarget("m1")).toBeUndefined();
    expect(await story.findTarget("m2")).toBeDefined();
  });
});

describe("a guest that stays", () => {
  test.each<{ name: string; act: (story: Migrating) => Promise<void>; why: RegExp }>([
    {
      name: "the target pod ends",
      act: async (story) => story.endPod(await story.target(), "Failed"),
      why: /^target pod \S+ has ended before the guest came$/,
    },
    { name: "it is cancelled", act: (story) => story.cancel(), why: /canceled/ },
  ])("before the guest migrates: $name", async ({ act, why }) => {
    const story = await Migrating.begin();
    await story.runTarget();
    await act(story);
    const { metadata, status } = await story.vmi();
    expect(status?.migrationState).toMatchObject({
      completed: true,
      failed: true,
      failureReason: expect.stringMatching(why) as string,
    });
    expect(status).toMatchObject({ nodeName: "node1", activePods: { "pod-uid": "node1" } });
    expect(status?.phase).toBe("Running");
    expect(metadata.labels).not.toHaveProperty("kubevirt.io/migrationTargetNodeName");
    expect(await story.findTarget()).toBeUndefined();
    expect(await story.findSource()).toBeDefined();
  });

  test("stays when the source reports a failure, and not before", async () => {
    const story = await Migrating.begin();
    await story.runUntilSending();
    await story.endPod(await story.target(), "Failed");
    expect(await story.phase()).toBe("Running");
    expect(await story.state()).toMatchObject({ abortRequested: true });
    expect(await story.state()).not.toHaveProperty("completed");
    await story.writeState({ failed: true, failureReason: "no way", abortStatus: "Succeeded" });
    expect(await story.phase()).toBe("Failed");
    expect(await story.state()).toMatchObject({ completed: true, failureReason: "no way" });
  });
});

describe("a VM that is stopped meanwhile", () => {
  test("is shut down on its node after its migration has ended", async () => {
    const story = await Migrating.begin();
    await story.runUntilSending();
    await story.stop();
    expect(await story.state()).toMatchObject({ abortRequested: true });
    expect(await story.findSource()).toBeDefined();
    await story.writeState({ failed: true, failureReason: "it was canceled" });
    expect(await story.findSource()).toBeUndefined();
    expect(await story.findTarget()).toBeUndefined();
    expect(await story.phase()).toBe("Failed");
  });

  test("is shut down on the target if the guest already runs there", async () => {
    const story = await Migrating.begin();
    await story.runUntilSending();
    await story.stop();
    await story.arrive();
    expect(await story.phase()).toBe("Succeeded");
    expect(await story.findSource()).toBeUndefined();
    expect(await story.findTarget()).toBeUndefined();
  });
});
