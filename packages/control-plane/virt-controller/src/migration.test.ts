// SPDX-License-Identifier: Apache-2.0
// virt-controller's part of a successful and a failed migration, step by step, with the status of each object.
import { names, VIRTUAL_MACHINE_INSTANCES } from "@patchbay/api";
import { describe, expect, test } from "vitest";
import { LAUNCHER } from "./testing/launched-vmi.ts";
import { aMigration, Migrating, UID } from "./testing/migrating.ts";

describe("a migrating guest", () => {
  test("gets a second pod on another node, named after the migration", async () => {
    const scenario = await Migrating.begin();
    const { metadata, spec } = await scenario.target();
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
    expect(await scenario.phase()).toBe("Scheduling");
    const { labels, finalizers } = (await scenario.migration())?.metadata ?? {};
    expect(labels).toEqual({ "kubevirt.io/vmi-name": "vm1" });
    expect(finalizers).toEqual(["kubevirt.io/migrationJobFinalize"]);
    expect((await scenario.vmi()).status?.migrationState).toBeUndefined();
  });

  test("gets a second pod with annotations that the cache of VMIs lacks", async () => {
    const scenario = new Migrating();
    await scenario.start([]);
    const vmi = await scenario.vmi();
    const annotations = { "a.example/long": "x".repeat(5000) };
    const metadata = { ...vmi.metadata, annotations };
    await scenario.bench.put(VIRTUAL_MACHINE_INSTANCES, { ...vmi, metadata });
    await scenario.createMigration(aMigration());
    expect((await scenario.target()).metadata.annotations).toMatchObject(annotations);
  });

  test("is announced in the VMI's status and label once the pod is ready", async () => {
    const scenario = await Migrating.begin();
    await scenario.runTarget();
    const { metadata, status } = await scenario.vmi();
    const target = await scenario.target();
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
    expect(await scenario.phase()).toBe("PreparingTarget");
  });

  test("passes every phase, in the status of both objects", async () => {
    const scenario = await Migrating.begin();
    await scenario.runUntilSending();
    expect(await scenario.phase()).toBe("Running");
    await scenario.arrive();
    const { status } = (await scenario.migration()) ?? {};
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
    expect(scenario.bench.events).toEqual([
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
    const scenario = await Migrating.begin();
    await scenario.runUntilSending();
    await scenario.arrive();
    const { metadata, status } = await scenario.vmi();
    const target = await scenario.target();
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
    expect(await scenario.findSource()).toBeUndefined();
  });

  test("migrates back, and the intermediate pod is deleted", async () => {
    const scenario = await Migrating.begin();
    await scenario.runUntilSending();
    await scenario.arrive();
    const back = aMigration("m2", { creationTimestamp: "2026-01-01T00:01:00Z" });
    await scenario.createMigration(back);
    await scenario.runTarget("m2", {}, "node1");
    await scenario.listen();
    await scenario.send();
    await scenario.arrive();
    expect(await scenario.phase("m2")).toBe("Succeeded");
    expect((await scenario.vmi()).status?.nodeName).toBe("node1");
    expect(await scenario.findTarget("m1")).toBeUndefined();
    expect(await scenario.findTarget("m2")).toBeDefined();
  });
});

describe("a guest that stays", () => {
  test.each<{ name: string; act: (scenario: Migrating) => Promise<void>; why: RegExp }>([
    {
      name: "the target pod ends",
      act: async (scenario) => scenario.endPod(await scenario.target(), "Failed"),
      why: /^target pod \S+ has ended before the guest came$/,
    },
    { name: "the migration is canceled", act: (scenario) => scenario.cancel(), why: /canceled/ },
  ])("before the guest migrates: $name", async ({ act, why }) => {
    const scenario = await Migrating.begin();
    await scenario.runTarget();
    await act(scenario);
    const { metadata, status } = await scenario.vmi();
    expect(status?.migrationState).toMatchObject({
      completed: true,
      failed: true,
      failureReason: expect.stringMatching(why) as string,
    });
    expect(status).toMatchObject({ nodeName: "node1", activePods: { "pod-uid": "node1" } });
    expect(status?.phase).toBe("Running");
    expect(metadata.labels).not.toHaveProperty("kubevirt.io/migrationTargetNodeName");
    expect(await scenario.findTarget()).toBeUndefined();
    expect(await scenario.findSource()).toBeDefined();
  });

  test("stays when the source reports a failure, and not before", async () => {
    const scenario = await Migrating.begin();
    await scenario.runUntilSending();
    await scenario.endPod(await scenario.target(), "Failed");
    expect(await scenario.phase()).toBe("Running");
    expect(await scenario.state()).toMatchObject({ abortRequested: true });
    expect(await scenario.state()).not.toHaveProperty("completed");
    await scenario.writeState({ failed: true, failureReason: "no way", abortStatus: "Succeeded" });
    expect(await scenario.phase()).toBe("Failed");
    expect(await scenario.state()).toMatchObject({ completed: true, failureReason: "no way" });
  });
});

describe("a VM that is stopped meanwhile", () => {
  test("is shut down on its node after its migration has ended", async () => {
    const scenario = await Migrating.begin();
    await scenario.runUntilSending();
    await scenario.stop();
    expect(await scenario.state()).toMatchObject({ abortRequested: true });
    expect(await scenario.findSource()).toBeDefined();
    await scenario.writeState({ failed: true, failureReason: "it was canceled" });
    expect(await scenario.findSource()).toBeUndefined();
    expect(await scenario.findTarget()).toBeUndefined();
    expect(await scenario.phase()).toBe("Failed");
  });

  test("is shut down on the target if the guest already runs there", async () => {
    const scenario = await Migrating.begin();
    await scenario.runUntilSending();
    await scenario.stop();
    await scenario.arrive();
    expect(await scenario.phase()).toBe("Succeeded");
    expect(await scenario.findSource()).toBeUndefined();
    expect(await scenario.findTarget()).toBeUndefined();
  });
});
