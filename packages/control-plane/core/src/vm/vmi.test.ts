// SPDX-License-Identifier: Apache-2.0
// What is done next for one VMI: its launcher pod, the pod's networks, and the end.
import { names, type VirtualMachineInstance, type VmiStatus } from "@patchbay/api";
import { parseNetworks, printNetworks } from "@patchbay/api/annotations";
import type { Pod } from "@patchbay/api/kubernetes";
import { aPod, aVmi, type NicSketch } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import { nicsOf } from "../nics/nics.ts";
import { planVmi, readPodNetworkElements, type VmiFacts } from "./vmi.ts";
import { CLUSTER, SETTINGS } from "../testing/launcher-facts.ts";

const NOW = "2026-01-01T00:00:00Z";
const ONE: NicSketch = { name: "one", mac: "02:00:00:00:00:01" };
const ABSENT: NicSketch = { ...ONE, state: "absent" };

function plan(vmi: VirtualMachineInstance, pod?: Pod): ReturnType<typeof planVmi> {
  const facts: VmiFacts = { vmi, pod, settings: SETTINGS, ...CLUSTER };
  return planVmi(facts);
}

function kindsOf(vmi: VirtualMachineInstance, pod?: Pod): readonly string[] {
  return plan(vmi, pod).map(({ kind }) => kind);
}

function scheduled(
  nics: readonly NicSketch[],
  { ownedByVm = false, ...status }: VmiStatus & { readonly ownedByVm?: boolean } = {},
): VirtualMachineInstance {
  const vmi = aVmi({ nics, ownedByVm, status: { phase: "Scheduled", ...status } });
  return { ...vmi, metadata: { ...vmi.metadata, labels: { [names.NODE_NAME_LABEL]: "node1" } } };
}

function deleted<T extends VirtualMachineInstance | Pod>(object: T): T {
  return { ...object, metadata: { ...object.metadata, deletionTimestamp: NOW } };
}

const ELEMENT = {
  name: "blue",
  namespace: "default",
  mac: "02:00:00:00:00:01",
  interface: "pod7692c3ad354",
};

describe("a VMI without a pod", () => {
  test("gets a pod with its networks", () => {
    const [create] = plan(aVmi({ nics: [ONE] }));
    expect(create?.kind).toBe("createPod");
    expect(create?.kind === "createPod" && readPodNetworkElements(create.pod)).toEqual([ELEMENT]);
  });

  test("first gets the finalizer, so that its end can be observed", () => {
    const metadata = { name: "vm1", namespace: "default", uid: "vmi-uid" };
    expect(plan({ ...aVmi(), metadata })).toEqual([{ kind: "addFinalizer" }]);
    const other = { ...aVmi(), metadata: { ...metadata, finalizers: ["other"] } };
    expect(plan(other)).toEqual([{ kind: "addFinalizer" }]);
  });

  test.each([
    { name: "if it already had one", vmi: aVmi({ status: { activePods: { u: "node1" } } }) },
    { name: "if its guest has ended", vmi: aVmi({ status: { phase: "Failed" } }) },
    { name: "if it cannot be started", vmi: { ...aVmi(), spec: { domain: {} } } },
  ])("gets no pod $name", ({ vmi }) => {
    expect(plan(vmi)).toEqual([]);
  });
});

describe("the end of a VMI", () => {
  test("deletes the pod once, then removes the finalizer", () => {
    const vmi = deleted(aVmi());
    expect(plan(vmi, aPod())).toEqual([
      { kind: "deletePod", name: "virt-launcher-vm1-abcde", uid: "pod-uid", graceSeconds: 35 },
    ]);
    expect(plan(vmi, deleted(aPod()))).toEqual([]);
    expect(plan(vmi)).toEqual([{ kind: "removeFinalizer" }]);
  });

  test.each([
    { asked: 10, going: undefined, want: [15] },
    { asked: 10, going: 35, want: [15] },
    { asked: 10, going: 15, want: [] },
    { asked: 0, going: 35, want: [1] },
    { asked: 0, going: 1, want: [] },
  ])(
    "deletes the pod of a guest with grace $asked s, pod grace $going s: in $want s",
    ({ asked: requested, going, want }) => {
      const input = deleted(aVmi());
      const vmi = { ...input, spec: { ...input.spec, terminationGracePeriodSeconds: requested } };
      const pod = going === undefined ? aPod() : deleted(aPod());
      const grace = going === undefined ? {} : { deletionGracePeriodSeconds: going };
      const steps = plan(vmi, { ...pod, metadata: { ...pod.metadata, ...grace } });
      expect(steps.map((step) => "graceSeconds" in step && step.graceSeconds)).toEqual(want);
    },
  );

  test("ends when the finalizer is removed", () => {
    const metadata = { name: "vm1", namespace: "default", deletionTimestamp: NOW };
    expect(plan({ ...aVmi(), metadata })).toEqual([]);
    expect(plan({ ...aVmi(), metadata: { ...metadata, finalizers: ["other"] } })).toEqual([]);
  });

  test("plans nothing for a guest that has ended, whatever its pod's state", () => {
    expect(plan(aVmi({ nics: [ONE], status: { phase: "Succeeded" } }), aPod())).toEqual([]);
  });
});

describe("the node label", () => {
  test("is the node of the pod", () => {
    expect(plan(aVmi(), aPod())).toEqual([{ kind: "labelNode", node: "node1" }]);
  });

  test("waits for the scheduler, and is written once", () => {
    const pod = aPod();
    const spec = { containers: pod.spec.containers };
    expect(plan(aVmi(), { ...pod, spec })).toEqual([]);
    expect(plan(scheduled([]), pod)).toEqual([]);
  });
});

describe("the networks of the pod", () => {
  const requested = (elements: Parameters<typeof printNetworks>[0]): Pod =>
    aPod({ [names.NETWORKS_ANNOTATION]: printNetworks(elements) });

  test("are those that the VMI requests", () => {
    expect(plan(scheduled([ONE]), aPod())).toEqual([
      { kind: "patchPodNetworks", value: printNetworks([ELEMENT]) },
    ]);
    expect(plan(scheduled([ONE]), requested([ELEMENT]))).toEqual([]);
  });

  test("are replaced if they are unreadable", () => {
    const pod = aPod({ [names.NETWORKS_ANNOTATION]: "[" });
    expect(readPodNetworkElements(pod)).toEqual([]);
    expect(kindsOf(scheduled([ONE]), pod)).toEqual(["patchPodNetworks"]);
  });

  test("do not change on a pod that is ending", () => {
    expect(plan(scheduled([ONE]), deleted(aPod()))).toEqual([]);
    const finished = { ...aPod(), status: { phase: "Failed" as const } };
    expect(plan(scheduled([ONE]), finished)).toEqual([]);
  });

  test("retain their order and foreign entries", () => {
    const foreign = { name: "red", namespace: "x", interface: "net7" };
    const [patch] = plan(scheduled([ONE]), requested([foreign]));
    const to = patch?.kind === "patchPodNetworks" ? parseNetworks(patch.value) : undefined;
    expect(to).toEqual({ ok: true, elements: [foreign, ELEMENT] });
  });
});

describe("an absent NIC", () => {
  test("is removed from a VMI without a VM when it is fully detached", () => {
    expect(plan(scheduled([ABSENT]), aPod())).toEqual([
      { kind: "patchVmiNics", to: { networks: [], ifaces: [] } },
    ]);
  });

  test("stays while the pod or the node still has a part of it", () => {
    const identity = { name: "one", podInterfaceName: "pod1" };
    const attachments = [{ ...identity, state: "Removing" as const }];
    expect(plan(scheduled([ABSENT], { attachments }), aPod())).toEqual([]);
    expect(plan(scheduled([ABSENT], { interfaces: [identity] }), aPod())).toEqual([]);
  });

  test("is removed by the VM if it has one", () => {
    expect(plan(scheduled([ABSENT], { ownedByVm: true }), aPod())).toEqual([]);
  });

  test("is removed without other NICs", () => {
    const two = { name: "two", mac: "02:00:00:00:00:02" };
    const [patch] = plan(scheduled([ABSENT, two]), aPod()).filter(
      ({ kind }) => kind === "patchVmiNics",
    );
    expect(patch).toEqual({ kind: "patchVmiNics", to: nicsOf(aVmi({ nics: [two] }).spec) });
  });
});
