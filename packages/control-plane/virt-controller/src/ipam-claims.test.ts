// SPDX-License-Identifier: Apache-2.0
// IPAMClaims over the life of a VM, against an API server.
import {
  IPAM_CLAIMS,
  names,
  NETWORK_ATTACHMENT_DEFINITIONS,
  PODS,
  VIRTUAL_MACHINE_INSTANCES,
  type IpamClaim,
  type NetworkAttachmentDefinition,
} from "@patchbay/api";
import { findSyncError } from "@patchbay/core/status";
import { aVmi, eventually } from "@patchbay/support";
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
