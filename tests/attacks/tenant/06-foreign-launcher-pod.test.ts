// SPDX-License-Identifier: Apache-2.0
// A tenant's pod that claims to be the launcher of another tenant's VMI.
import { names, PODS, VIRTUAL_MACHINES, type VirtualMachineInstance } from "@patchbay/api";
import type { Pod } from "@patchbay/api/kubernetes";
import { isAppError } from "@patchbay/base";
import type { KubeClient } from "@patchbay/kube";
import { eventually } from "@patchbay/support";
import { startTestServer, type TestServer } from "@patchbay/support/api-server";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import {
  startController,
  type Controller,
} from "../../../packages/control-plane/virt-controller/src/testing/controllers.ts";
import {
  launcherNameOf,
  Scene,
} from "../../../packages/control-plane/virt-controller/src/testing/cluster-actors.ts";

const ELSEWHERE = "tenant";
const NAMESPACES = {
  group: "",
  version: "v1",
  resource: "namespaces",
  kind: "Namespace",
  namespaced: false,
};

let server: TestServer;
let admin: KubeClient;
let controller: Controller;
let scene: Scene;

beforeAll(async () => {
  server = await startTestServer();
  admin = await server.client("kubernetes-admin", ["system:masters"]);
  const namespace = { apiVersion: "v1", kind: "Namespace", metadata: { name: ELSEWHERE } };
  await admin.store.create(NAMESPACES, namespace);
});

afterAll(async () => {
  await server.close();
});

beforeEach(async () => {
  controller = await startController(server);
  scene = new Scene(admin, "victim");
  await scene.createVm([{ name: "one", mac: "02:00:00:00:00:01" }]);
});

afterEach(async () => {
  await scene.end();
  for (const { metadata } of (await admin.store.list(PODS)).items) {
    const key = { namespace: metadata.namespace ?? "", name: metadata.name };
    await admin.store.delete(PODS, key, { gracePeriodSeconds: 0 });
  }
  await controller.stop();
});

/** A pod with all labels and annotations of the VMI's launcher. */
function impostor(
  vmi: VirtualMachineInstance,
  metadata: Partial<Pod["metadata"]> & Pick<Pod["metadata"], "name">,
): Pod {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      namespace: "default",
      labels: {
        [names.KUBEVIRT_LABEL]: names.LAUNCHER_LABEL_VALUE,
        [names.CREATED_BY_LABEL]: vmi.metadata.uid ?? "",
        [names.VM_NAME_LABEL]: vmi.metadata.name,
      },
      annotations: { [names.DOMAIN_ANNOTATION]: vmi.metadata.name },
      ...metadata,
    },
    spec: { containers: [{ name: "compute", image: "evil" }] },
  };
}

/** The garbage collector may delete it first if its owner is in another namespace: then it never runs. */
async function runImpostor(pod: Pod): Promise<void> {
  try {
    await bindAndRun(pod);
  } catch (error) {
    if (!isAppError(error, "KUBE_NOT_FOUND")) throw error;
  }
}

async function bindAndRun({ metadata }: Pod): Promise<void> {
  const { namespace = "", name } = metadata;
  const target = { apiVersion: "v1", kind: "Node", name: "evil-node" };
  await admin.requestRaw({
    method: "POST",
    path: `/api/v1/namespaces/${namespace}/pods/${name}/binding`,
    body: { apiVersion: "v1", kind: "Binding", metadata: { name }, target },
  });
  const operations = [{ op: "add", path: "/status", value: { phase: "Running" } }] as const;
  const patch = { type: "json", operations } as const;
  await admin.store.patch(PODS, { namespace, name }, patch, { subresource: "status" });
}

const ROWS = [
  { name: "in the VMI's namespace", metadata: { name: "impostor" }, owned: false },
  {
    name: "in another namespace, under the launcher's name and owner",
    metadata: { name: "launcher", namespace: ELSEWHERE },
    owned: true,
  },
  {
    name: "with the VMI's owner reference, but not its name",
    metadata: { name: "impostor" },
    owned: true,
  },
] as const;

test.each(ROWS)(
  "attack 6: a pod $name is not used as the launcher",
  async ({ metadata, owned }) => {
    const own = await scene.pod();
    const vmi = await scene.vmi();
    const ownerReferences = owned ? (own.metadata.ownerReferences ?? []) : [];
    const name = metadata.name === "launcher" ? own.metadata.name : metadata.name;
    const evil = impostor(vmi, { ...metadata, name, ownerReferences });
    await admin.store.create(PODS, evil);
    await runImpostor(evil);
    await scene.runPod();
    await scene.vmiWhen(({ status }) => status?.phase === "Scheduled");
    const { status, metadata: reported } = await scene.vmi();
    expect(status?.activePods).toEqual({ [own.metadata.uid ?? ""]: "node1" });
    expect(reported.labels?.[names.NODE_NAME_LABEL]).toBe("node1");
  },
);

test("attack 6: a VMI whose own pod was deleted ends, although other pods claim to be its launcher", async () => {
  const own = await scene.pod();
  const vmi = await scene.vmi();
  const evil = impostor(vmi, {
    name: own.metadata.name,
    namespace: ELSEWHERE,
    ownerReferences: own.metadata.ownerReferences ?? [],
  });
  await admin.store.create(PODS, evil);
  await admin.store.delete(VIRTUAL_MACHINES, scene.key);
  await eventually(
    async () => {
      await scene.removePod();
      return (await scene.findVmi()) === undefined;
    },
    { withinMs: 5000 },
  );
});

test("attack 6: reports a pod that already has the launcher's name and does not adopt it", async () => {
  await scene.pod();
  const other = new Scene(admin, "other");
  controller.freeze("virtualmachineinstances");
  await other.createVm([]);
  const vmi = await eventually(() => other.findVmi(), { withinMs: 5000 });
  const evil = impostor(vmi, { name: launcherNameOf(vmi) });
  await admin.store.create(PODS, evil);
  await runImpostor(evil);
  controller.thaw();
  const reported = await other.vmiWhen(({ status }) =>
    (status?.conditions ?? []).some(({ reason }) => reason === "FailedCreate"),
  );
  expect(reported.status?.activePods).toBeUndefined();
  await other.end();
});

test("attack 6: does not use a pod in place of a deleted launcher if virt-api does not guard its networks", async () => {
  // With this run strategy, the failed VMI remains.
  const victim = new Scene(admin, "once");
  await victim.createVm([], "Once");
  const own = await victim.pod();
  await victim.runPod();
  await victim.vmiWhen(({ status }) => status?.activePods !== undefined);
  controller.freeze("pods");
  await victim.removePod();
  const { name, ownerReferences = [] } = own.metadata;
  const evil = impostor(await victim.vmi(), { name, ownerReferences, labels: {} });
  await admin.store.create(PODS, evil);
  await runImpostor(evil);
  controller.thaw();
  const { status } = await victim.vmiWhen(({ status: { phase } = {} }) => phase === "Failed");
  expect(Object.keys(status?.activePods ?? {})).toEqual([own.metadata.uid]);
  await victim.end();
});
