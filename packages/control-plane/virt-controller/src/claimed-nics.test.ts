// SPDX-License-Identifier: Apache-2.0
// NICs that are devices of resource claims, from the start of a VM to a live plug. The test acts as the driver.
import {
  KUBEVIRTS,
  PODS,
  RESOURCE_CLAIM_TEMPLATES,
  RESOURCE_CLAIMS,
  VIRTUAL_MACHINE_INSTANCES,
  VIRTUAL_MACHINES,
  type VirtualMachine,
  type VirtualMachineInstance,
} from "@patchbay/api";
import type { Pod } from "@patchbay/api/kubernetes";
import { after, done } from "@patchbay/kube";
import { launcherPodName } from "@patchbay/core/migration";
import { aVm } from "@patchbay/support";
import { beforeEach, describe, expect, test } from "vitest";
import { Bench, KEY } from "./testing/bench.ts";
import { useStage } from "./testing/component-environment.ts";

const TEMPLATE = { name: "nics", resourceClaimTemplateName: "nic" };
const BLUE = { name: "blue", resourceClaim: { claimName: "nics", requestName: "nic" } };
const DEVICE = { driver: "nics.example.com", pool: "node1", device: "veth0" };
const MAC = "02:00:00:00:00:0a";

let bench: Bench;

function vmWith(
  claims: readonly object[],
  networks: readonly { readonly name: string }[],
): VirtualMachine {
  const vm = aVm();
  const { spec } = vm.spec.template;
  const interfaces = networks.map(({ name }) => ({ name, bridge: {} }));
  const template = {
    spec: {
      ...spec,
      domain: { ...spec.domain, devices: { interfaces } },
      networks,
      resourceClaims: claims,
    },
  };
  return { ...vm, spec: { ...vm.spec, template } } as VirtualMachine;
}

async function vmiNow(): Promise<VirtualMachineInstance> {
  const vmi = await bench.server.find(VIRTUAL_MACHINE_INSTANCES, KEY);
  if (vmi === undefined) throw new Error("no VMI");
  return vmi;
}

async function podNow(): Promise<Pod> {
  const name = launcherPodName(await vmiNow());
  const pod = await bench.server.find(PODS, { ...KEY, name });
  if (pod === undefined) throw new Error("no launcher");
  return pod;
}

async function passes(): Promise<void> {
  for (let pass = 0; pass < 4; pass += 1) {
    await bench.passVm();
    await bench.catchUp();
    await bench.passVmi();
    await bench.catchUp();
  }
}

function allow(
  gate: boolean,
  resourceClaimSlots?: { readonly resourceClaimTemplateName: string; readonly count: number },
): Promise<void> {
  const featureGates = gate ? ["NetworkDevicesWithDRA"] : [];
  const network = resourceClaimSlots === undefined ? {} : { resourceClaimSlots };
  const configuration = { developerConfiguration: { featureGates }, network };
  const metadata = { name: "kubevirt", namespace: "patchbay" };
  const kubevirt = {
    apiVersion: "kubevirt.io/v1",
    kind: "KubeVirt",
    metadata,
    spec: { configuration },
  };
  return bench.put(KUBEVIRTS, kubevirt);
}

/** The pod runs on a node, and its claims were created. */
async function runPod(): Promise<void> {
  const pod = await podNow();
  const startedAt = new Date(bench.nowMs).toISOString();
  const container = { name: "compute", image: "i", imageID: "", ready: true, restartCount: 0 };
  const resourceClaimStatuses = (pod.spec.resourceClaims ?? []).map(({ name }) => ({
    name,
    resourceClaimName: `vm1-${name}`,
  }));
  const containerStatuses = [{ ...container, state: { running: { startedAt } } }];
  const spec = { ...pod.spec, nodeName: "node1" };
  await bench.put(PODS, {
    ...pod,
    spec,
    status: { phase: "Running", containerStatuses, resourceClaimStatuses },
  });
}

function report(claim: string, networkData?: object): Promise<void> {
  const metadata = { name: claim, namespace: "default" };
  const allocation = { devices: { results: [{ request: "nic", ...DEVICE }] } };
  const devices = networkData === undefined ? [] : [{ ...DEVICE, networkData }];
  const object = { apiVersion: "resource.k8s.io/v1", kind: "ResourceClaim", metadata, spec: {} };
  return bench.put(RESOURCE_CLAIMS, { ...object, status: { allocation, devices } });
}

beforeEach(async () => {
  bench = new Bench();
  await allow(true);
});

test("the launcher has the claim, and the driver's device is the attachment", async () => {
  await bench.put(VIRTUAL_MACHINES, vmWith([TEMPLATE], [BLUE]));
  await passes();
  expect((await podNow()).spec.resourceClaims).toEqual([TEMPLATE]);
  await runPod();
  bench.nowMs += 1000;
  expect(await bench.passVmi()).toEqual(after(9000));
  expect(bench.watchedClaims).toEqual(["vm1-nics"]);
  await bench.catchUp();
  expect((await vmiNow()).status?.attachments).toBeUndefined();
  await report("vm1-nics", { interfaceName: "dra1", hardwareAddress: MAC, ips: ["10.9.0.5/24"] });
  await passes();
  expect((await vmiNow()).status?.attachments).toEqual([
    { name: "blue", podInterfaceName: "dra1", state: "Attached", mac: MAC, ips: ["10.9.0.5"] },
  ]);
  expect((await podNow()).metadata.annotations?.["k8s.v1.cni.cncf.io/networks"] ?? "[]").toBe("[]");
});

test("a device that no driver reports within 10 s has a reason, and is used when it is reported", async () => {
  await bench.put(VIRTUAL_MACHINES, vmWith([TEMPLATE], [BLUE]));
  await passes();
  await runPod();
  await report("vm1-nics");
  bench.nowMs += 10_000;
  expect(await bench.passVmi()).toEqual(done());
  await bench.catchUp();
  expect((await vmiNow()).status?.attachments).toMatchObject([
    { name: "blue", state: "Failed", reason: "DeviceNotReported" },
  ]);
  await report("vm1-nics", { interfaceName: "dra1" });
  await passes();
  expect((await vmiNow()).status?.attachments).toEqual([
    { name: "blue", podInterfaceName: "dra1", state: "Attached" },
  ]);
});

test("an attachment does not change until the watches of its claims are synchronized", async () => {
  await bench.put(VIRTUAL_MACHINES, vmWith([TEMPLATE], [BLUE]));
  await passes();
  await runPod();
  await report("vm1-nics", { interfaceName: "dra1" });
  await passes();
  const { status } = await vmiNow();
  bench.areClaimWatchesSynced = false;
  bench.nowMs += 60_000;
  await passes();
  expect((await vmiNow()).status).toEqual(status);
});

test("claims of a running guest and of a deleted VMI are not watched", async () => {
  await bench.put(VIRTUAL_MACHINES, vmWith([TEMPLATE], [BLUE]));
  await passes();
  await runPod();
  await report("vm1-nics", { interfaceName: "dra1" });
  await passes();
  const vmi = await vmiNow();
  await bench.put(VIRTUAL_MACHINE_INSTANCES, {
    ...vmi,
    status: { ...vmi.status, phase: "Running" },
  });
  expect(bench.watchedClaims).toEqual(["vm1-nics"]);
  await bench.passVmi();
  await bench.catchUp();
  expect(bench.watchedClaims).toEqual([]);
  expect((await vmiNow()).status?.attachments).toMatchObject([{ state: "Attached" }]);
  bench.watchedClaims = ["vm1-nics"];
  bench.vmis.deliver(KEY, undefined);
  await bench.passVmi();
  expect(bench.watchedClaims).toEqual([]);
});

test("a device of a slot is plugged into the running guest, and one of a new claim waits", async () => {
  const slots = { resourceClaimTemplateName: "nic", count: 1 };
  await allow(true, slots);
  const metadata = { name: "nic", namespace: "default" };
  const apiVersion = "resource.k8s.io/v1";
  await bench.put(RESOURCE_CLAIM_TEMPLATES, {
    apiVersion,
    kind: "ResourceClaimTemplate",
    metadata,
    spec: { spec: {} },
  });
  await bench.put(VIRTUAL_MACHINES, vmWith([], []));
  await passes();
  const slot = { name: "network-slot-1", resourceClaimTemplateName: "nic" };
  expect((await podNow()).spec.resourceClaims).toEqual([slot]);
  await runPod();
  await report("vm1-network-slot-1", { interfaceName: "dra1" });
  const network = { name: "blue", resourceClaim: { claimName: slot.name, requestName: "nic" } };
  const current = await bench.server.find(VIRTUAL_MACHINES, KEY);
  const plugged = vmWith([slot], [network]);
  await bench.put(VIRTUAL_MACHINES, {
    ...plugged,
    metadata: { ...current?.metadata, ...plugged.metadata },
  });
  await passes();
  expect((await vmiNow()).status?.attachments).toMatchObject([
    { name: "blue", podInterfaceName: "dra1", state: "Attached" },
  ]);
  const more = { name: "more", resourceClaimTemplateName: "nic" };
  const red = { name: "red", resourceClaim: { claimName: "more", requestName: "nic" } };
  const waiting = vmWith([slot, more], [network, red]);
  await bench.put(VIRTUAL_MACHINES, {
    ...waiting,
    metadata: { ...current?.metadata, ...waiting.metadata },
  });
  await passes();
  expect((await vmiNow()).spec.networks).toEqual([network]);
  const { conditions = [] } = (await bench.server.find(VIRTUAL_MACHINES, KEY))?.status ?? {};
  expect(conditions.find(({ type }) => type === "RestartRequired")).toMatchObject({
    status: "True",
    message: expect.stringContaining("resourceClaims[1]") as string,
  });
});

test.each([
  { name: "without the template in the namespace", gate: true },
  { name: "without the feature gate", gate: false },
])("$name, a VM has no slots", async ({ gate }) => {
  await allow(gate, { resourceClaimTemplateName: "nic", count: 1 });
  await bench.put(VIRTUAL_MACHINES, vmWith([], []));
  await passes();
  expect((await podNow()).spec).not.toHaveProperty("resourceClaims");
});

describe("a claim of a running launcher", () => {
  const stage = useStage();

  test("is watched, so that a device that is reported late is used", async () => {
    const { store } = stage.admin;
    const metadata = { name: "kubevirt", namespace: "default" };
    await store.create(KUBEVIRTS, {
      apiVersion: "kubevirt.io/v1",
      kind: "KubeVirt",
      metadata,
      spec: {
        configuration: { developerConfiguration: { featureGates: ["NetworkDevicesWithDRA"] } },
      },
    });
    await store.create(VIRTUAL_MACHINES, {
      ...vmWith([TEMPLATE], [BLUE]),
      metadata: stage.scene.key,
    });
    await stage.scene.runPod();
    const container = { name: "compute", image: "i", imageID: "", ready: true, restartCount: 0 };
    const state = { running: { startedAt: "2026-01-01T00:00:00Z" } };
    const value = {
      phase: "Running",
      containerStatuses: [{ ...container, state }],
      resourceClaimStatuses: [{ name: "nics", resourceClaimName: "blue-nics" }],
    };
    await stage.scene.patchPodStatus([{ op: "add", path: "/status", value }]);
    const isIn = (state: string) => (vmi: VirtualMachineInstance) =>
      vmi.status?.attachments?.[0]?.state === state;
    await stage.scene.vmiWhen(isIn("Failed"));
    const claim = { apiVersion: "resource.k8s.io/v1", kind: "ResourceClaim", spec: {} };
    const key = { name: "blue-nics", namespace: "default" };
    await store.create(RESOURCE_CLAIMS, { ...claim, metadata: key });
    const allocation = { devices: { results: [{ request: "nic", ...DEVICE }] } };
    const devices = [{ ...DEVICE, networkData: { interfaceName: "dra1" } }];
    const patch = { type: "merge", fields: { status: { allocation, devices } } } as const;
    await store.patch(RESOURCE_CLAIMS, key, patch, { subresource: "status" });
    const { status } = await stage.scene.vmiWhen(isIn("Attached"));
    expect(status?.attachments?.[0]?.podInterfaceName).toBe("dra1");
  });
});
