// SPDX-License-Identifier: Apache-2.0
// One pass over a VM and its VMI: immediate changes, deferred ones, and failures that do not block others.
import { KUBEVIRTS, PODS, VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES, names } from "@patchbay/api";
import { aVm, aVmi, type NicSketch } from "@patchbay/support";
import { beforeEach, expect, test } from "vitest";
import { Bench } from "../testing/bench.ts";
import { launcher, LAUNCHER } from "../testing/launched-vmi.ts";

const ONE: NicSketch = { name: "one", mac: "02:00:00:00:00:01" };
const PATCHES = ["virtualmachineinstances default/vm1", `pods default/${LAUNCHER}`];
const VM_STATUS = "patch virtualmachines default/vm1";

let bench: Bench;

/** A running guest without NICs, and its VM with a current status. */
beforeEach(async () => {
  bench = new Bench();
  const activePods = { "pod-uid": "node1" };
  const vmi = aVmi({ ownedByVm: true, status: { phase: "Running", activePods } });
  const labels = { [names.NODE_NAME_LABEL]: "node1" };
  await bench.put(VIRTUAL_MACHINES, aVm());
  await bench.put(VIRTUAL_MACHINE_INSTANCES, { ...vmi, metadata: { ...vmi.metadata, labels } });
  await bench.put(PODS, launcher());
  await bench.settleVmi();
  await bench.settleVm();
  const vm = await bench.vm();
  const next = aVm({ nics: [ONE] });
  const metadata = { ...next.metadata, generation: 2 };
  await bench.put(VIRTUAL_MACHINES, {
    ...next,
    metadata,
    ...(vm?.status && { status: vm.status }),
  });
});

test("one pass adds a new NIC of the VM to the VMI and the pod", async () => {
  await bench.pass();
  expect(bench.calls).toEqual(PATCHES.map((patch) => `patch ${patch}`));
});

test("a staged NIC waits, is reported, and is plugged when the rollout strategy changes", async () => {
  const rollOut = async (vmRolloutStrategy: "Stage" | "LiveUpdate"): Promise<void> => {
    const metadata = { name: "kubevirt", namespace: "patchbay" };
    const spec = { configuration: { vmRolloutStrategy } };
    await bench.put(KUBEVIRTS, { apiVersion: "kubevirt.io/v1", kind: "KubeVirt", metadata, spec });
  };
  await rollOut("Stage");
  expect(await bench.pass()).toEqual({ kind: "done" });
  expect(bench.calls).toEqual([VM_STATUS]);
  const told = (await bench.vm())?.status?.conditions ?? [];
  expect(told.find(({ type }) => type === "RestartRequired")?.message).toContain("interfaces[0]");
  await bench.catchUp();
  await bench.pass();
  expect(bench.calls).toEqual([]);
  await rollOut("LiveUpdate");
  await bench.pass();
  const patches = PATCHES.map((patch) => `patch ${patch}`);
  expect(bench.calls).toEqual(expect.arrayContaining([...patches, VM_STATUS]));
});

test("the observed generation is written with the outcome, or after half a minute", async () => {
  expect(await bench.pass()).toEqual({ kind: "after", ms: 30_000 });
  await bench.catchUp();
  bench.nowMs += 20_000;
  expect(await bench.pass()).toEqual({ kind: "after", ms: 10_000 });
  expect(bench.calls).toEqual([]);
  bench.nowMs += 10_000;
  expect(await bench.pass()).toEqual({ kind: "done" });
  expect(bench.calls).toEqual([VM_STATUS]);
  expect((await bench.vm())?.status?.observedGeneration).toBe(2);
});

test("the PCI address of an existing NIC is reported at once", async () => {
  await bench.pass();
  const vmi = await bench.vmi();
  const hotplug = { type: "Plug", phase: "Ready" } as const;
  const interfaces = [{ name: "one", pciAddress: "0000:02:00.0", hotplug }];
  if (vmi !== undefined) {
    const status = { ...vmi.status, interfaces };
    await bench.put(VIRTUAL_MACHINE_INSTANCES, { ...vmi, status });
  }
  await bench.pass();
  expect(bench.calls).toContain(VM_STATUS);
  expect((await bench.vm())?.status).toMatchObject({
    observedGeneration: 2,
    pcieTopology: { interfaces: [{ name: "one", pciAddress: "0000:02:00.0" }] },
  });
});

test("a VMI that cannot be written does not block its pod, and the failure is reported", async () => {
  const strange = JSON.stringify([{ name: "x", interface: "pod0123456789a" }]);
  await bench.put(PODS, launcher({ [names.NETWORKS_ANNOTATION]: strange }));
  bench.refuse("patch virtualmachineinstances", "KUBE_UNREACHABLE");
  await expect(bench.pass()).rejects.toMatchObject({ code: "KUBE_UNREACHABLE" });
  expect(bench.calls).toContain(`patch pods default/${LAUNCHER}`);
});
