// SPDX-License-Identifier: Apache-2.0
// The complete virt-controller against an API server; the test acts as the node.
import { KUBEVIRTS, names, type VirtualMachine } from "@patchbay/api";
import { parseNetworks } from "@patchbay/api/annotations";
import type { Pod } from "@patchbay/api/kubernetes";
import { VERSION } from "@patchbay/base/version";
import { findSyncError } from "@patchbay/core/status";
import { eventually } from "@patchbay/support";
import { beforeEach, describe, expect, test } from "vitest";
import { startController } from "./testing/controllers.ts";
import { useStage } from "./testing/component-environment.ts";

const SOON = { withinMs: 5000 };
const MAC = "02:00:00:00:00:01";

const stage = useStage();

function elementsOf(current: Pod): readonly (string | undefined)[] {
  const parsed = parseNetworks(current.metadata.annotations?.[names.NETWORKS_ANNOTATION]);
  return parsed.ok ? parsed.elements.map((element) => element.interface) : [];
}

async function attachmentStates(): Promise<readonly string[]> {
  return ((await stage.scene.vmi()).status?.attachments ?? []).map(
    ({ name, state }) => `${name} ${state}`,
  );
}

describe("a started VM", () => {
  test("gets a VMI, and a launcher pod with its networks and the MACs that the user set", async () => {
    await stage.scene.createVm([{ name: "one", mac: MAC }, { name: "two" }]);
    const made = await stage.scene.pod();
    const [one, two] = (await stage.scene.vmi()).spec.domain.devices?.interfaces ?? [];
    expect(one?.macAddress).toBe(MAC);
    expect(two?.macAddress).toBeUndefined();
    const elements: unknown = JSON.parse(
      made.metadata.annotations?.[names.NETWORKS_ANNOTATION] ?? "",
    );
    expect(elements).toEqual([
      { name: "blue", namespace: "default", mac: MAC, interface: expect.any(String) as string },
      { name: "blue", namespace: "default", interface: expect.any(String) as string },
    ]);
  });

  test("reports the pod's node and interfaces to virt-handler", async () => {
    await stage.scene.createVm([{ name: "one", mac: MAC }]);
    await stage.scene.runPod();
    await stage.scene.attachAll();
    await eventually(async () => (await attachmentStates()).join() === "one Attached", SOON);
    const { metadata, status } = await stage.scene.vmi();
    expect(metadata.labels?.[names.NODE_NAME_LABEL]).toBe("node1");
    expect(Object.values(status?.activePods ?? {})).toEqual(["node1"]);
    expect(status?.phase).toBe("Scheduled");
  });
});

test("a VM with DataVolumes reports that the cluster does not serve them", async () => {
  await stage.scene.createVm([], "Halted");
  const dataVolumeTemplates = [{ metadata: { name: "root" }, spec: { pvc: {} } }];
  await stage.scene.patchVm([
    { op: "add", path: "/spec/dataVolumeTemplates", value: dataVolumeTemplates },
    { op: "replace", path: "/spec/runStrategy", value: "Always" },
  ]);
  const told = ({ status }: VirtualMachine) =>
    status?.printableStatus?.startsWith("Error") === true;
  const { status } = await stage.scene.vmWhen(told);
  expect(status?.printableStatus).toBe("ErrorDataVolumeNotFound");
  expect(findSyncError(status?.conditions)?.message).toMatch(/create a PersistentVolumeClaim/);
});

describe("a NIC that is removed from a running VM", () => {
  beforeEach(async () => {
    await stage.scene.createVm([{ name: "one", mac: MAC }]);
    await stage.scene.runPod();
    await stage.scene.attachAll();
    await eventually(async () => (await attachmentStates()).join() === "one Attached", SOON);
    const operations = [
      { op: "replace", path: "/spec/template/spec/networks", value: [] },
      { op: "replace", path: "/spec/template/spec/domain/devices/interfaces", value: [] },
    ] as const;
    await stage.scene.patchVm(operations);
    await eventually(
      async () =>
        (await stage.scene.vmi()).spec.domain.devices?.interfaces?.[0]?.state === "absent",
      SOON,
    );
  });

  test("stays in the pod until virt-handler has detached it, then is removed everywhere", async () => {
    await stage.scene.reportVmi({
      interfaces: [{ name: "one", hotplug: { type: "Unplug", phase: "Detaching" } }],
    });
    expect(await attachmentStates()).toEqual(["one Attached"]);
    expect(elementsOf(await stage.scene.pod())).toHaveLength(1);
    await stage.scene.reportVmi({
      interfaces: [{ name: "one", hotplug: { type: "Unplug", phase: "PodDetaching" } }],
    });
    await eventually(async () => elementsOf(await stage.scene.pod()).length === 0, SOON);
    expect(await attachmentStates()).toEqual(["one Removing"]);
    await stage.scene.attachAll();
    await eventually(async () => (await attachmentStates()).length === 0, SOON);
    expect((await stage.scene.vmi()).spec.networks).toHaveLength(1);
    await stage.scene.reportVmi({ interfaces: [] });
    await eventually(async () => (await stage.scene.vmi()).spec.networks?.length === 0, SOON);
  });

  test("is removed in the same way after a restart of virt-controller", async () => {
    await stage.scene.reportVmi({
      interfaces: [{ name: "one", hotplug: { type: "Unplug", phase: "PodDetaching" } }],
    });
    await eventually(async () => (await attachmentStates()).join() === "one Removing", SOON);
    await stage.controller.stop();
    stage.controller = await startController(stage.server);
    await eventually(async () => elementsOf(await stage.scene.pod()).length === 0, SOON);
    await stage.scene.attachAll();
    await stage.scene.reportVmi({ interfaces: [] });
    await eventually(async () => (await stage.scene.vmi()).spec.networks?.length === 0, SOON);
  });
});

test("the KubeVirt object reports the state of the installation", async () => {
  await stage.scene.createVm([], "Halted");
  await stage.scene.vmWhen(({ status }) => status?.printableStatus === "Stopped");
  const key = { namespace: "default", name: "kubevirt" };
  const admin = await stage.server.client("installer", ["system:masters"]);
  const head = { apiVersion: "kubevirt.io/v1", kind: "KubeVirt", metadata: key };
  await admin.store.create(KUBEVIRTS, { ...head, spec: {} });
  const status = await eventually(
    async () => (await admin.store.find(KUBEVIRTS, key))?.status,
    SOON,
  );
  expect(status).toMatchObject({ phase: "Deploying", operatorVersion: `v${VERSION}` });
  expect(status.conditions?.map((each) => `${each.type} ${each.status}`)).toEqual([
    "Available False",
    "Progressing True",
    "Degraded False",
    "Created False",
  ]);
  await admin.store.delete(KUBEVIRTS, key);
});
