// SPDX-License-Identifier: Apache-2.0
// IPAMClaims over the life of a VM, against an API server.
import {
  IPAM_CLAIMS,
  names,
  NAMESPACES,
  NETWORK_ATTACHMENT_DEFINITIONS,
  PODS,
  VIRTUAL_MACHINE_INSTANCES,
  VIRTUAL_MACHINES,
  type IpamClaim,
  type NetworkAttachmentDefinition,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { parseJson } from "@patchbay/api/json";
import { AppError } from "@patchbay/base";
import { findSyncError, pointerToken } from "@patchbay/core/status";
import { aVm, aVmi, eventually } from "@patchbay/support";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Bench } from "./testing/bench.ts";
import { useStage } from "./testing/component-environment.ts";

const SOON = { withinMs: 5000 };
const NETWORK = { namespace: "default", name: "lasting" };
const CONFIG = { name: "tenant-lasting", type: "ovn-k8s-cni-overlay", allowPersistentIPs: true };
const NAD: NetworkAttachmentDefinition = {
  apiVersion: "k8s.cni.cncf.io/v1",
  kind: NETWORK_ATTACHMENT_DEFINITIONS.kind,
  metadata: NETWORK,
  spec: { config: JSON.stringify(CONFIG) },
};
const stage = useStage();

const SECOND_NETWORK = { namespace: "default", name: "second" };
const SECOND_NAD = {
  ...NAD,
  metadata: SECOND_NETWORK,
  spec: { config: JSON.stringify({ ...CONFIG, name: "tenant-second" }) },
};

beforeAll(async () => {
  await stage.admin.store.create(NETWORK_ATTACHMENT_DEFINITIONS, NAD);
  await stage.admin.store.create(NETWORK_ATTACHMENT_DEFINITIONS, SECOND_NAD);
});

afterAll(async () => {
  await stage.admin.store.delete(NETWORK_ATTACHMENT_DEFINITIONS, NETWORK);
  await stage.admin.store.delete(NETWORK_ATTACHMENT_DEFINITIONS, SECOND_NETWORK);
});

function findClaim(suffix = "one"): Promise<IpamClaim | undefined> {
  const { namespace, name } = stage.scene.key;
  return stage.admin.store.find(IPAM_CLAIMS, { namespace, name: `${name}.${suffix}` });
}

async function claimed(): Promise<readonly (string | undefined)[]> {
  return (await stage.scene.elements()).map((element) => element["ipam-claim-reference"]);
}

async function createClaimingVm(): Promise<IpamClaim> {
  await stage.scene.createVm([{ name: "one", network: NETWORK.name }]);
  await stage.scene.boot();
  await stage.scene.attachAll();
  await stage.scene.vmiWhen(({ status }) => status?.attachments?.[0]?.state === "Attached");
  return eventually(() => findClaim(), SOON);
}

test("a claim lasts as long as its VM, and ends after the guest", async () => {
  const claim = await createClaimingVm();
  const { name } = stage.scene.key;
  expect(await claimed()).toEqual([`${name}.one`]);
  expect(claim).toMatchObject({
    metadata: {
      labels: { "kubevirt.io/vm": name },
      finalizers: ["kubevirt.io/persistent-ipam"],
      ownerReferences: [{ kind: "VirtualMachine", name, controller: true }],
    },
    spec: { network: "tenant-lasting", interface: expect.stringMatching(/^pod/) as string },
  });
  // Another launcher uses the same claim.
  const { uid } = (await stage.scene.vmi()).metadata;
  await stage.scene.deleteVmi();
  await stage.scene.removePod();
  await stage.scene.vmiWhen((vmi) => vmi.metadata.uid !== uid);
  await eventually(async () => (await claimed()).includes(`${name}.one`) || undefined, SOON);
  expect((await findClaim())?.metadata.uid).toBe(claim.metadata.uid);
  // The network may give the addresses to others only after the guest has ended.
  await stage.scene.boot();
  await stage.scene.attachAll();
  await stage.scene.vmiWhen(({ status }) => status?.attachments?.[0]?.state === "Attached");
  await stage.admin.store.delete(IPAM_CLAIMS, claim.metadata);
  await stage.scene.reportVmi({ phase: "Running" });
  expect((await findClaim())?.metadata.deletionTimestamp).toBeDefined();
  await stage.scene.end();
  await eventually(async () => (await findClaim()) === undefined || undefined, SOON);
});

test("a claim ends when its VM loses the NIC", async () => {
  await createClaimingVm();
  const base = "/spec/template/spec";
  await stage.scene.patchVm([
    { op: "replace", path: `${base}/networks`, value: [] },
    { op: "replace", path: `${base}/domain/devices/interfaces`, value: [] },
  ]);
  await stage.scene.reportVmi({
    interfaces: [{ name: "one", hotplug: { type: "Unplug", phase: "PodDetaching" } }],
  });
  await eventually(async () => (await claimed()).length === 0 || undefined, SOON);
  expect(await findClaim()).toBeDefined();
  await stage.scene.attachAll();
  await stage.scene.vmiWhen(({ status }) => status?.attachments === undefined);
  await eventually(async () => (await findClaim()) === undefined || undefined, SOON);
});

test("a network swap claims addresses of the new network, then releases those of the former", async () => {
  await createClaimingVm();
  const { name } = stage.scene.key;
  const suffix = "one.ee422c09";
  const path = "/spec/template/spec/networks/0/multus/networkName";
  await stage.scene.patchVm([{ op: "replace", path, value: SECOND_NETWORK.name }]);
  const references = [`${name}.one`, `${name}.${suffix}`];
  await eventually(async () => (await claimed()).length === 2 || undefined, SOON);
  expect(await claimed()).toEqual(references);
  await stage.scene.attachAll();
  const { status } = await stage.scene.vmiWhen((vmi) => vmi.status?.attachments?.length === 2);
  expect(status?.attachments?.map(({ reason }) => reason)).toEqual([undefined, undefined]);
  expect((await findClaim())?.metadata.deletionTimestamp).toBeUndefined();
  // virt-handler uses the new pod NIC.
  const [, element] = await stage.scene.elements();
  const podInterfaceName = element?.interface ?? "";
  await stage.scene.reportVmi({ interfaces: [{ name: "one", podInterfaceName }] });
  await eventually(async () => (await claimed()).length === 1 || undefined, SOON);
  await stage.scene.attachAll();
  await eventually(async () => (await findClaim()) === undefined || undefined, SOON);
  const claim = await findClaim(suffix);
  expect(claim?.spec.network).toBe("tenant-second");
  // The next launcher uses the claim with the NIC's addresses.
  const { uid } = (await stage.scene.vmi()).metadata;
  await stage.scene.deleteVmi();
  await stage.scene.removePod();
  await stage.scene.vmiWhen((vmi) => vmi.metadata.uid !== uid);
  await eventually(async () => (await claimed()).includes(`${name}.${suffix}`) || undefined, SOON);
  expect((await findClaim(suffix))?.metadata.uid).toBe(claim?.metadata.uid);
  expect(await findClaim()).toBeUndefined();
});

/** Definition that OVN-Kubernetes creates for a namespace's UserDefinedNetwork. */
const PRIMARY_NAD = {
  ...NAD,
  metadata: { namespace: "default", name: "tenant" },
  spec: {
    config: JSON.stringify({
      ...CONFIG,
      name: "default_tenant",
      topology: "layer2",
      role: "primary",
      subnets: "10.100.0.0/16",
    }),
  },
};
/** Definition of the default network. Source: OVN-Kubernetes EnsureDefaultNetworkNAD. */
const DEFAULT_NAD = {
  ...NAD,
  metadata: { namespace: "ovn-kubernetes", name: "default" },
  spec: {
    config: '{"cniVersion": "0.4.0", "name": "ovn-kubernetes", "type": "ovn-k8s-cni-overlay"}',
  },
};
const PRIMARY_CLAIM = "k8s.ovn.org/primary-udn-ipamclaim";
const DEFAULT_NETWORK = "v1.multus-cni.io/default-network";
const POD_NETWORK = {
  metadata: { annotations: { "network.kubevirt.io/addresses": '{"podnet": ["10.100.0.9"]}' } },
  networks: [{ name: "podnet", pod: {} }],
  interfaces: [{ name: "podnet", bridge: {} }],
};

describe("a VM on the pod network", () => {
  async function createVm(): Promise<void> {
    const vm = aVm();
    const { metadata, networks, interfaces } = POD_NETWORK;
    const { spec } = vm.spec.template;
    const domain = { ...spec.domain, devices: { interfaces } };
    const template = { metadata, spec: { ...spec, networks, domain } };
    await stage.admin.store.create(VIRTUAL_MACHINES, {
      ...vm,
      metadata: stage.scene.key,
      spec: { runStrategy: "Always", template },
    });
  }

  async function readAnnotations(): Promise<readonly unknown[]> {
    const { annotations = {} } = (await stage.scene.pod()).metadata;
    const request = annotations[DEFAULT_NETWORK];
    return [annotations[PRIMARY_CLAIM], parseJson(request)];
  }

  /** The network's controller assigns the addresses. */
  async function assign(ips: readonly string[]): Promise<void> {
    const key = { namespace: "default", name: `${stage.scene.key.name}.podnet` };
    const status = { ips, ownerPod: "launcher" };
    const patch = { type: "merge", fields: { status } } as const;
    await stage.admin.store.patch(IPAM_CLAIMS, key, patch, { subresource: "status" });
  }

  test("has no claim and no annotation without a primary network", async () => {
    await createVm();
    expect(await readAnnotations()).toEqual([undefined, undefined]);
    await stage.scene.boot();
    expect(await findClaim("podnet")).toBeUndefined();
    expect(stage.controller.calls.filter((call) => call.includes("ipamclaims"))).toEqual([]);
  });

  test("reports that it has no claim when the primary network is created later", async () => {
    await createVm();
    await stage.scene.boot();
    const path = `/metadata/annotations/${pointerToken(names.NETWORK_STATUS_ANNOTATION)}`;
    const value = JSON.stringify([
      { name: "ovn-kubernetes", interface: "ovn-udn1", ips: ["10.100.0.3"], default: true },
    ]);
    await stage.scene.patchPodStatus([{ op: "add", path, value }]);
    const isAttached = (reason: string | undefined) => (vmi: VirtualMachineInstance) =>
      vmi.status?.attachments?.some(
        (each) => each.state === "Attached" && each.reason === reason,
      ) === true;
    await stage.scene.vmiWhen(isAttached(undefined));
    await stage.admin.store.create(NETWORK_ATTACHMENT_DEFINITIONS, PRIMARY_NAD);
    try {
      const { status } = await stage.scene.vmiWhen(isAttached("AddressNotClaimed"));
      expect(status?.attachments?.[0]?.message).toContain("network default/tenant");
    } finally {
      await stage.admin.store.delete(NETWORK_ATTACHMENT_DEFINITIONS, PRIMARY_NAD.metadata);
    }
    await stage.scene.vmiWhen(isAttached(undefined));
  });

  test("keeps its addresses on the namespace's primary network", async () => {
    const { store } = stage.admin;
    const namespace = { apiVersion: "v1", kind: "Namespace", metadata: { name: "ovn-kubernetes" } };
    await store.create(NAMESPACES, namespace);
    await store.create(NETWORK_ATTACHMENT_DEFINITIONS, DEFAULT_NAD);
    await store.create(NETWORK_ATTACHMENT_DEFINITIONS, PRIMARY_NAD);
    try {
      await createVm();
      const { name } = stage.scene.key;
      const request = {
        name: "default",
        namespace: "ovn-kubernetes",
        ips: ["10.100.0.9/16"],
        "ipam-claim-reference": `${name}.podnet`,
      };
      expect(await readAnnotations()).toEqual([`${name}.podnet`, [request]]);
      const claim = await eventually(() => findClaim("podnet"), SOON);
      expect(claim).toMatchObject({
        metadata: { ownerReferences: [{ kind: "VirtualMachine", name, controller: true }] },
        spec: { network: "default_tenant" },
      });
      await assign(["10.100.0.9/16"]);
      await stage.scene.boot();
      // Another launcher uses the same claim.
      const { uid } = (await stage.scene.vmi()).metadata;
      await stage.scene.deleteVmi();
      await stage.scene.removePod();
      await stage.scene.vmiWhen((vmi) => vmi.metadata.uid !== uid);
      expect(await readAnnotations()).toEqual([`${name}.podnet`, [request]]);
      expect((await findClaim("podnet"))?.metadata.uid).toBe(claim.metadata.uid);
      // The network may give the addresses to others only after the guest has ended.
      await stage.scene.boot();
      await store.delete(IPAM_CLAIMS, claim.metadata);
      await stage.scene.reportVmi({ phase: "Running" });
      expect((await findClaim("podnet"))?.metadata.deletionTimestamp).toBeDefined();
      await stage.scene.end();
      await eventually(async () => (await findClaim("podnet")) === undefined || undefined, SOON);
    } finally {
      await store.delete(NETWORK_ATTACHMENT_DEFINITIONS, PRIMARY_NAD.metadata);
      await store.delete(NETWORK_ATTACHMENT_DEFINITIONS, DEFAULT_NAD.metadata);
    }
  });

  test.each<{ message: string; want: readonly (string | undefined)[] }>([
    {
      // Source: ipam-extensions, validateDefaultMultusNetworkRequest.
      message: `admission webhook "ipam-claims.k8s.cni.cncf.io" denied the request: multus default network annotation "${DEFAULT_NETWORK}" is not allowed on pod creation`,
      want: ["vm1.podnet"],
    },
    { message: "exceeded quota", want: [] },
  ])("leaves requests to ipam-extensions only if it rejects them: $message", async (row) => {
    const bench = new Bench();
    const vmi = aVmi();
    const { metadata, networks, interfaces } = POD_NETWORK;
    const domain = { ...vmi.spec.domain, devices: { interfaces } };
    await bench.put(NETWORK_ATTACHMENT_DEFINITIONS, DEFAULT_NAD);
    await bench.put(NETWORK_ATTACHMENT_DEFINITIONS, PRIMARY_NAD);
    await bench.put(VIRTUAL_MACHINE_INSTANCES, {
      ...vmi,
      metadata: { ...vmi.metadata, ...metadata },
      spec: { ...vmi.spec, networks, domain },
    });
    bench.refuseWith(
      "create pods",
      new AppError("KUBE_FORBIDDEN", { message: row.message }),
      ({ annotations = {} }) => annotations[DEFAULT_NETWORK] !== undefined,
    );
    await bench.settleVmi().catch(() => undefined);
    const { items } = await bench.server.list(PODS);
    expect(items.map((pod) => pod.metadata.annotations?.[PRIMARY_CLAIM])).toEqual(row.want);
    for (const pod of items) expect(pod.metadata.annotations).not.toHaveProperty(DEFAULT_NETWORK);
  });
});

describe("a VMI on a network with persistent addresses", () => {
  const nics = [{ name: "one", network: NETWORK.name }];

  async function openBench(): Promise<Bench> {
    const bench = new Bench();
    await bench.put(NETWORK_ATTACHMENT_DEFINITIONS, NAD);
    await bench.put(VIRTUAL_MACHINE_INSTANCES, aVmi({ nics }));
    return bench;
  }

  async function readNetworks(bench: Bench): Promise<readonly (string | undefined)[]> {
    const { items } = await bench.server.list(PODS);
    return items.map(({ metadata }) => metadata.annotations?.[names.NETWORKS_ANNOTATION]);
  }

  test.each(["KUBE_NOT_FOUND", "KUBE_FORBIDDEN"] as const)(
    "starts without a claim if the API server answers %s",
    async (code) => {
      const bench = await openBench();
      bench.refuse("get ipamclaims", code);
      await bench.settleVmi().catch(() => undefined);
      expect(await readNetworks(bench)).toEqual([expect.not.stringContaining("ipam-claim")]);
      const { status } = (await bench.vmi()) ?? {};
      expect(findSyncError(status?.conditions)).toBeUndefined();
    },
  );

  test("waits for another owner's claim of its name to be deleted, and reports that", async () => {
    const bench = await openBench();
    const owner = { apiVersion: "kubevirt.io/v1", kind: "VirtualMachine", name: "vm1", uid: "old" };
    await bench.put(IPAM_CLAIMS, {
      apiVersion: "k8s.cni.cncf.io/v1alpha1",
      kind: IPAM_CLAIMS.kind,
      metadata: {
        namespace: "default",
        name: "vm1.one",
        ownerReferences: [{ ...owner, controller: true }],
      },
      spec: { network: "tenant-lasting", interface: "pod" },
    });
    expect(await bench.passVmi()).toMatchObject({ kind: "after" });
    expect(await readNetworks(bench)).toEqual([]);
    expect(findSyncError((await bench.vmi())?.status?.conditions)).toMatchObject({
      reason: "FailedCreate",
      message: expect.stringContaining("IPAMClaim default/vm1.one still belongs to") as string,
    });
    await bench.server.delete(IPAM_CLAIMS, { namespace: "default", name: "vm1.one" });
    bench.nowMs += 600_000;
    await bench.catchUp();
    await bench.settleVmi();
    expect(await readNetworks(bench)).toEqual([
      expect.stringContaining('"ipam-claim-reference":"vm1.one"'),
    ]);
  });
});
