// SPDX-License-Identifier: Apache-2.0
// The whole of virt-controller against an API server; the test plays the node.
import { names, parseNetworks, type Pod } from "@patchbay/api";
import type { KubeClient } from "@patchbay/kube";
import { eventually } from "@patchbay/testing";
import { startTestServer, type TestServer } from "@patchbay/testing/api-server";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { startController, type Controller } from "./testing/controllers.ts";
import { Scene } from "./testing/scene.ts";

const SOON = { withinMs: 5000 };
const MAC = "02:00:00:00:00:01";

let server: TestServer;
let admin: KubeClient;
let controller: Controller;
let scene: Scene;

function elementsOf(current: Pod): readonly (string | undefined)[] {
  const parsed = parseNetworks(current.metadata.annotations?.[names.NETWORKS_ANNOTATION]);
  return parsed.ok ? parsed.elements.map((element) => element.interface) : [];
}

async function attachmentStates(): Promise<readonly string[]> {
  return ((await scene.vmi()).status?.attachments ?? []).map(
    ({ name, state }) => `${name} ${state}`,
  );
}

beforeAll(async () => {
  server = await startTestServer();
  admin = await server.client("kubernetes-admin", ["system:masters"]);
});

afterAll(async () => {
  await server.close();
});

beforeEach(async () => {
  controller = await startController(server);
  scene = new Scene(admin, "vm1");
});

afterEach(async () => {
  await scene.end();
  await controller.stop();
});

describe("a VM that is to run", () => {
  test("gets MACs, a VMI, and a launcher pod that asks for its networks", async () => {
    await scene.createVm([{ name: "one" }]);
    const made = await scene.pod();
    const mac = (await scene.vm()).spec.template.spec.domain.devices?.interfaces?.[0]?.macAddress;
    expect(mac).toMatch(/^[0-9a-f]{2}(:[0-9a-f]{2}){5}$/);
    expect((await scene.vmi()).spec.domain.devices?.interfaces?.[0]?.macAddress).toBe(mac);
    expect(made.metadata.annotations?.[names.NETWORKS_ANNOTATION]).toContain(mac);
  });

  test("tells the node agent where its pod runs and what the pod has", async () => {
    await scene.createVm([{ name: "one", mac: MAC }]);
    await scene.runPod();
    await scene.attachAll();
    await eventually(async () => (await attachmentStates()).join() === "one Attached", SOON);
    const { metadata, status } = await scene.vmi();
    expect(metadata.labels?.[names.NODE_NAME_LABEL]).toBe("node1");
    expect(Object.values(status?.activePods ?? {})).toEqual(["node1"]);
    expect(status?.phase).toBe("Scheduled");
  });
});

describe("a NIC that is removed from a running VM", () => {
  beforeEach(async () => {
    await scene.createVm([{ name: "one", mac: MAC }]);
    await scene.runPod();
    await scene.attachAll();
    await eventually(async () => (await attachmentStates()).join() === "one Attached", SOON);
    const operations = [
      { op: "replace", path: "/spec/template/spec/networks", value: [] },
      { op: "replace", path: "/spec/template/spec/domain/devices/interfaces", value: [] },
    ] as const;
    await scene.patchVm(operations);
    await eventually(
      async () => (await scene.vmi()).spec.domain.devices?.interfaces?.[0]?.state === "absent",
      SOON,
    );
  });

  test("stays in the pod until the node agent has let go of it, then goes everywhere", async () => {
    await scene.reportVmi({
      interfaces: [{ name: "one", hotplug: { type: "Unplug", phase: "Detaching" } }],
    });
    expect(await attachmentStates()).toEqual(["one Attached"]);
    expect(elementsOf(await scene.pod())).toHaveLength(1);
    await scene.reportVmi({
      interfaces: [{ name: "one", hotplug: { type: "Unplug", phase: "PodDetaching" } }],
    });
    await eventually(async () => elementsOf(await scene.pod()).length === 0, SOON);
    expect(await attachmentStates()).toEqual(["one Removing"]);
    await scene.attachAll();
    await eventually(async () => (await attachmentStates()).length === 0, SOON);
    expect((await scene.vmi()).spec.networks).toHaveLength(1);
    await scene.reportVmi({ interfaces: [] });
    await eventually(async () => (await scene.vmi()).spec.networks?.length === 0, SOON);
  });

  test("the same after virt-controller was started anew in between", async () => {
    await scene.reportVmi({
      interfaces: [{ name: "one", hotplug: { type: "Unplug", phase: "PodDetaching" } }],
    });
    await eventually(async () => (await attachmentStates()).join() === "one Removing", SOON);
    await controller.stop();
    controller = await startController(server);
    await eventually(async () => elementsOf(await scene.pod()).length === 0, SOON);
    await scene.attachAll();
    await scene.reportVmi({ interfaces: [] });
    await eventually(async () => (await scene.vmi()).spec.networks?.length === 0, SOON);
  });
});
