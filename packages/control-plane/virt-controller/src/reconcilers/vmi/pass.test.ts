// SPDX-License-Identifier: Apache-2.0
// One pass over one VMI: writes, their preconditions, and objects of other owners.
import {
  KUBEVIRTS,
  names,
  PODS,
  VIRTUAL_MACHINE_INSTANCES,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { aVmi } from "@patchbay/support";
import { beforeEach, describe, expect, test } from "vitest";
import { Bench, KEY } from "../../testing/bench.ts";
import { LAUNCHER, launcher, ON_NODE1, STARTED, vmiWith } from "../../testing/launched-vmi.ts";

const OURS = names.VMI_FINALIZER;
const THEIRS = "example.com/theirs";
const DELETED = { deletionTimestamp: "2026-01-01T00:00:00Z" };
const VMI = "virtualmachineinstances default/vm1";
const POD = `pods default/${LAUNCHER}`;

let bench: Bench;

beforeEach(() => {
  bench = new Bench();
});

function putVmi(vmi: VirtualMachineInstance, when?: "meanwhile"): Promise<void> {
  return bench.put(VIRTUAL_MACHINE_INSTANCES, vmi, when);
}

function beforeNextWrite(vmi: VirtualMachineInstance): void {
  bench.server.beforeNextWrite(() => {
    bench.server.put(VIRTUAL_MACHINE_INSTANCES, vmi);
  });
}

async function finalizers(): Promise<readonly string[] | undefined> {
  return (await bench.vmi())?.metadata.finalizers;
}

test("does nothing for a deleted VMI", async () => {
  expect(await bench.passVmi()).toEqual({ kind: "done" });
  expect(bench.calls).toEqual([]);
});

describe("the finalizer", () => {
  test("is added first, beside others, and alone in its pass", async () => {
    await putVmi(vmiWith({ finalizers: [THEIRS] }));
    expect(await bench.passVmi()).toEqual({ kind: "done" });
    expect(bench.calls).toEqual([`patch ${VMI}`]);
    expect(await finalizers()).toEqual([THEIRS, OURS]);
    expect((await bench.vmi())?.status).toBeUndefined();
  });

  test("is added to a VMI without finalizers, also while it is being deleted", async () => {
    const metadata = { ...KEY, uid: "vmi-uid" };
    await putVmi({ ...aVmi(), metadata: { ...metadata, ...DELETED } });
    await bench.passVmi();
    expect(bench.calls).toEqual([]);
    await putVmi({ ...aVmi(), metadata });
    await bench.passVmi();
    expect(await finalizers()).toEqual([OURS]);
  });

  test("is removed when the pod is deleted, and other finalizers stay", async () => {
    await putVmi(vmiWith({ ...DELETED, finalizers: [THEIRS, OURS] }));
    await bench.passVmi();
    expect(await finalizers()).toEqual([THEIRS]);
    expect((await bench.vmi())?.status).toBeUndefined();
  });

  test.each<{ name: string; before: readonly string[]; metadata: object }>([
    { name: "an update of a new VMI", before: [THEIRS], metadata: {} },
    { name: "an update of a new VMI without finalizers", before: [], metadata: {} },
    { name: "an update of a VMI that is being deleted", before: [OURS], metadata: DELETED },
  ])("$name does not remove finalizers of other writers", async ({ before, metadata }) => {
    await putVmi(vmiWith({ ...metadata, finalizers: [...before] }));
    const theirs = [...before, "example.com/new"];
    beforeNextWrite(vmiWith({ ...metadata, finalizers: theirs }));
    await expect(bench.passVmi()).rejects.toMatchObject({ code: "KUBE_CONFLICT" });
    expect(await finalizers()).toEqual(theirs);
  });

  test("is added despite concurrent writes", async () => {
    await putVmi(vmiWith({ finalizers: [THEIRS] }));
    beforeNextWrite(vmiWith({ finalizers: [THEIRS], labels: { a: "b" } }));
    await bench.passVmi();
    expect(await finalizers()).toEqual([THEIRS, OURS]);
  });

  test("once removed, a VMI with other finalizers is not changed", async () => {
    await putVmi(vmiWith({ ...DELETED, finalizers: [THEIRS] }, { status: STARTED }));
    await bench.passVmi();
    expect(bench.calls).toEqual([]);
  });
});

describe("stale caches", () => {
  test("uses the VMI as last written", async () => {
    await putVmi(vmiWith({ finalizers: [] }));
    await bench.passVmi();
    expect(bench.calls).toEqual([`patch ${VMI}`]);
    await bench.passVmi();
    expect(bench.calls.slice(1)).toEqual([`ask ${POD}`, `create ${POD}`, `patch ${VMI}`]);
  });

  test("uses the status as last written", async () => {
    await putVmi(vmiWith({ labels: ON_NODE1 }));
    await bench.put(PODS, launcher());
    await bench.passVmi();
    const { calls } = bench;
    expect(calls).toEqual([`patch ${VMI}`]);
    await bench.passVmi();
    expect(bench.calls).toEqual(calls);
  });

  test("uses the pod as last written", async () => {
    await putVmi(aVmi({ nics: [{ name: "one", mac: "02:00:00:00:00:01" }], status: STARTED }));
    await bench.put(PODS, launcher());
    await bench.settleVmi();
    const gone = launcher({ [names.NETWORKS_ANNOTATION]: "[]" });
    await bench.put(PODS, gone);
    await bench.passVmi();
    expect(bench.calls).toContain(`patch ${POD}`);
    // The cache has the current VMI but not its pod.
    bench.vmis.deliver(KEY, await bench.vmi());
    const { calls } = bench;
    await bench.passVmi();
    expect(bench.calls).toEqual(calls);
  });
});

describe("the launcher pod", () => {
  test("is created once, with the VMI's first status", async () => {
    await putVmi(aVmi());
    await bench.passVmi();
    expect(bench.calls).toEqual([`ask ${POD}`, `create ${POD}`, `patch ${VMI}`]);
    expect(bench.lines).toEqual([
      'probed image volume support {"areSupported":true}',
      `created launcher pod {"pod":"default/${LAUNCHER}"}`,
    ]);
    expect((await bench.vmi())?.status?.phase).toBe("Pending");
  });

  test("is created again with its kernel if the stored pod lacks it", async () => {
    const lost = launcher();
    const volumes = [{ name: "kernel-boot", emptyDir: {} }];
    await putVmi(aVmi());
    await bench.put(PODS, { ...lost, spec: { ...lost.spec, volumes } });
    await bench.passVmi();
    expect(bench.calls).toContain(`delete ${POD}`);
    expect((await bench.vmi())?.status?.activePods).toBeUndefined();
    await bench.catchUp();
    await bench.passVmi();
    expect(bench.calls).toEqual([`create ${POD}`, `patch ${VMI}`]);
    const pod = await bench.server.find(PODS, { ...KEY, name: LAUNCHER });
    expect(pod?.spec.initContainers?.map(({ image }) => image)).toEqual(["virt-launcher", "guest"]);
  });

  test.each([true, false])(
    "follows the cluster configuration: emulation %s",
    async (isEmulated) => {
      const developerConfiguration = { useEmulation: isEmulated };
      await bench.put(KUBEVIRTS, {
        apiVersion: "kubevirt.io/v1",
        kind: "KubeVirt",
        metadata: { name: "kubevirt", namespace: "kubevirt" },
        spec: { configuration: { developerConfiguration } },
      });
      await putVmi(aVmi());
      await bench.passVmi();
      const pod = await bench.server.find(PODS, { ...KEY, name: LAUNCHER });
      const [container] = pod?.spec.containers ?? [];
      expect(container?.image).toBe("virt-launcher");
      expect(container?.resources?.limits ?? {}).toHaveProperty([names.TUN_RESOURCE], "1");
      expect(names.KVM_RESOURCE in (container?.resources?.limits ?? {})).toBe(!isEmulated);
    },
  );

  test("that already exists is no fault", async () => {
    await putVmi(aVmi());
    await bench.put(PODS, launcher(), "meanwhile");
    expect(await bench.passVmi()).toEqual({ kind: "done" });
    expect(bench.events).toEqual([]);
  });

  test("that was deleted during the lookup is no fault", async () => {
    await putVmi(aVmi());
    bench.refuse("create pods", "KUBE_ALREADY_EXISTS");
    expect(await bench.passVmi()).toEqual({ kind: "done" });
    expect(bench.events).toEqual([]);
  });

  test("that is rejected is reported", async () => {
    await putVmi(aVmi());
    bench.refuse("create pods", "KUBE_FORBIDDEN");
    expect(await bench.passVmi()).toMatchObject({ kind: "after" });
    expect(bench.events).toEqual([expect.stringContaining("Warning FailedCreate: ")]);
  });

  test("whose name another owner's pod has is reported and retried", async () => {
    await putVmi(aVmi());
    await bench.put(PODS, launcher({}, "other-uid"));
    expect(await bench.passVmi()).toMatchObject({ kind: "after" });
    expect(bench.events).toEqual([
      expect.stringMatching(`^VirtualMachineInstance Warning .*${LAUNCHER}`),
    ]);
    expect(await bench.server.find(PODS, { ...KEY, name: LAUNCHER })).toMatchObject({
      metadata: { ownerReferences: [{ uid: "other-uid" }] },
    });
  });

  test("is deleted by its uid with the VMI, which exists until the pod is deleted", async () => {
    await putVmi(vmiWith(DELETED, { status: STARTED }));
    await bench.put(PODS, launcher());
    await bench.passVmi();
    expect(bench.calls).toEqual([`delete ${POD}`, `patch ${VMI}`]);
    expect(await finalizers()).toEqual([OURS]);
    await bench.catchUp();
    await bench.passVmi();
    expect(await finalizers()).toEqual([]);
  });

  test("does not lead to the deletion of another pod with the same name", async () => {
    await putVmi(vmiWith(DELETED, { status: STARTED }));
    await bench.put(PODS, launcher());
    const other = launcher();
    const metadata = { ...other.metadata, uid: "new-uid" };
    await bench.put(PODS, { ...other, metadata }, "meanwhile");
    await expect(bench.passVmi()).rejects.toMatchObject({ code: "KUBE_CONFLICT" });
    expect(await bench.server.find(PODS, { ...KEY, name: LAUNCHER })).toBeDefined();
  });
});

describe("a pod that the cache lacks", () => {
  const ASKED = `get ${POD}`;

  test.each<{ name: string; vmi: VirtualMachineInstance; isRead: boolean }>([
    { name: "a started VMI", vmi: aVmi({ status: STARTED }), isRead: true },
    { name: "a VMI that is being deleted", vmi: vmiWith(DELETED), isRead: true },
    {
      name: "a VMI with finalizers of other controllers",
      vmi: vmiWith({ ...DELETED, finalizers: [THEIRS] }, { status: STARTED }),
      isRead: false,
    },
    { name: "a new VMI", vmi: aVmi({ status: { phase: "Pending" } }), isRead: false },
    {
      name: "a VMI whose guest has ended",
      vmi: aVmi({ status: { ...STARTED, phase: "Succeeded" } }),
      isRead: false,
    },
  ])("$name: reads the pod from the server: $isRead", async ({ vmi, isRead }) => {
    await putVmi(vmi);
    await bench.passVmi();
    expect(bench.calls.includes(ASKED)).toBe(isRead);
  });

  test("is read from the server", async () => {
    await putVmi(aVmi({ status: STARTED }));
    await bench.put(PODS, launcher(), "meanwhile");
    await bench.passVmi();
    expect((await bench.vmi())?.status?.phase).toBe("Scheduled");
  });

  test("counts as deleted if the server has another owner's pod", async () => {
    await putVmi(aVmi({ status: STARTED }));
    await bench.put(PODS, launcher({}, "other-uid"), "meanwhile");
    await bench.passVmi();
    expect((await bench.vmi())?.status?.phase).toBe("Failed");
  });
});

describe("the pod's networks", () => {
  const NIC = { name: "one", mac: "02:00:00:00:00:01" };
  const ANNOTATION = names.NETWORKS_ANNOTATION;

  async function annotation(): Promise<string | undefined> {
    const pod = await bench.server.find(PODS, { ...KEY, name: LAUNCHER });
    return pod?.metadata.annotations?.[ANNOTATION];
  }

  test.each([
    { name: "existing networks", before: { [ANNOTATION]: "[]" } },
    { name: "networks added to a pod without networks", before: {} },
  ])("$name do not overwrite a concurrent change", async ({ before }) => {
    await putVmi(vmiWith({ labels: ON_NODE1 }, { nics: [NIC], status: STARTED }));
    await bench.put(PODS, launcher(before));
    const theirs = '[{"name":"theirs"}]';
    bench.server.beforeNextWrite(() => {
      bench.server.put(PODS, launcher({ [ANNOTATION]: theirs }));
    });
    await expect(bench.passVmi()).rejects.toMatchObject({ code: "KUBE_CONFLICT" });
    expect(await annotation()).toBe(theirs);
  });

  test("are written together with other news of the pod", async () => {
    await putVmi(vmiWith({ labels: ON_NODE1 }, { nics: [NIC], status: STARTED }));
    await bench.put(PODS, launcher({ [ANNOTATION]: "[]" }));
    bench.server.beforeNextWrite(() => {
      bench.server.put(PODS, launcher({ [ANNOTATION]: "[]", other: "new" }));
    });
    await bench.passVmi();
    expect(await annotation()).toContain(NIC.mac);
  });

  test("match the VMI's NICs, and the node is in the VMI's label", async () => {
    await putVmi(aVmi({ nics: [NIC], status: STARTED }));
    await bench.put(PODS, launcher());
    await bench.settleVmi();
    expect(await annotation()).toContain(NIC.mac);
    expect(bench.lines).toEqual([
      `changed the pod's networks ${JSON.stringify({ pod: `default/${LAUNCHER}`, networks: await annotation() })}`,
    ]);
    expect((await bench.vmi())?.metadata.labels).toEqual(ON_NODE1);
  });
});

test("an unplugged NIC is removed from the spec of a VMI without a VM", async () => {
  const status = { ...STARTED, phase: "Running" as const, attachments: [], interfaces: [] };
  await putVmi(aVmi({ nics: [{ name: "one", state: "absent" }, { name: "two" }], status }));
  await bench.put(PODS, launcher());
  await bench.settleVmi();
  const { spec } = (await bench.vmi()) ?? {};
  expect(spec?.networks?.map(({ name }) => name)).toEqual(["two"]);
  expect(spec?.domain.devices?.interfaces?.map(({ name }) => name)).toEqual(["two"]);
});

test("long annotations of a VMI, which the cache lacks, reach its launcher pod", async () => {
  const annotations = { "a.example/long": "x".repeat(5000) };
  await putVmi(vmiWith({ finalizers: [OURS], annotations }));
  await bench.passVmi();
  expect(
    (await bench.server.find(PODS, { ...KEY, name: LAUNCHER }))?.metadata.annotations,
  ).toMatchObject(annotations);
  await bench.catchUp();
  await bench.passVmi();
  expect(bench.calls).not.toContain(`get ${VMI}`);
});
