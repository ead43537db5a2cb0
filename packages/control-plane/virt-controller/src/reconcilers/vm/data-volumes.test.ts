// SPDX-License-Identifier: Apache-2.0
// DataVolumes of a VM's templates, which are created before the VMI.
import { DATA_VOLUMES, VIRTUAL_MACHINES, type VirtualMachine } from "@patchbay/api";
import { findSyncError } from "@patchbay/core/status";
import { aVm } from "@patchbay/support";
import { beforeEach, expect, test } from "vitest";
import { Bench, KEY } from "../../testing/bench.ts";

const DATA_VOLUME = { ...KEY, name: "root" };
const CREATE = "create datavolumes default/root";

let bench: Bench;

beforeEach(() => {
  bench = new Bench();
});

function vmWith(more: Partial<VirtualMachine["spec"]> = {}): VirtualMachine {
  const vm = aVm();
  const source = { blank: {} };
  const dataVolumeTemplates = [
    { metadata: { name: "root", labels: { app: "db" } }, spec: { source } },
  ];
  return { ...vm, spec: { ...vm.spec, dataVolumeTemplates, ...more } };
}

test("DataVolumes are created first, owned by the VM, and then its VMI", async () => {
  await bench.put(VIRTUAL_MACHINES, vmWith());
  expect(await bench.passVm()).toEqual({ kind: "after", ms: 0 });
  expect(bench.calls).toContain(CREATE);
  expect(await bench.vmi()).toBeUndefined();
  const made = await bench.server.find(DATA_VOLUMES, DATA_VOLUME);
  const { uid } = vmWith().metadata;
  expect(made?.spec).toEqual({ source: { blank: {} } });
  expect(made?.metadata).toMatchObject({
    labels: { app: "db", "kubevirt.io/created-by": uid },
    ownerReferences: [{ kind: "VirtualMachine", name: "vm1", uid, controller: true }],
  });
  await bench.catchUp();
  await bench.settleVm();
  expect(await bench.vmi()).toBeDefined();
});

test("DataVolumes of a stopped VM are created, and existing ones are not changed", async () => {
  await bench.put(VIRTUAL_MACHINES, vmWith({ runStrategy: "Halted" }));
  await bench.passVm();
  expect(bench.calls).toContain(CREATE);
  await bench.catchUp();
  await bench.passVm();
  expect(bench.calls).not.toContain(CREATE);
});

test("a DataVolume that was created concurrently is accepted", async () => {
  await bench.put(VIRTUAL_MACHINES, vmWith());
  bench.refuse("create datavolumes", "KUBE_ALREADY_EXISTS");
  expect(await bench.passVm()).toEqual({ kind: "after", ms: 0 });
});

test("a VM reports that the kind is not served, and is not started", async () => {
  await bench.put(VIRTUAL_MACHINES, vmWith());
  bench.refuse("find datavolumes", "KUBE_NOT_FOUND");
  bench.refuse("create datavolumes", "KUBE_NOT_FOUND");
  expect(await bench.passVm()).toMatchObject({ kind: "after" });
  expect(await bench.vmi()).toBeUndefined();
  const { status } = (await bench.vm()) ?? {};
  expect(findSyncError(status?.conditions)).toMatchObject({
    reason: "FailedDataVolumeNotFound",
    message: expect.stringContaining("install CDI") as string,
  });
  expect(status?.printableStatus).toBe("ErrorDataVolumeNotFound");
  expect(bench.events).toEqual([
    expect.stringMatching(/^VirtualMachine Warning FailedDataVolumeNotFound: .*install CDI/),
  ]);
  bench.calls = [];
  expect(await bench.passVm()).toMatchObject({ kind: "after" });
  expect(bench.calls).not.toContain(CREATE);
  expect((await bench.vm())?.status?.printableStatus).toBe("ErrorDataVolumeNotFound");
});

test("a VM cannot copy a disk of another namespace by virt-controller's rights", async () => {
  const source = { snapshot: { namespace: "images", name: "golden" } };
  const dataVolumeTemplates = [{ metadata: { name: "root" }, spec: { source } }];
  await bench.put(VIRTUAL_MACHINES, vmWith({ dataVolumeTemplates }));
  expect(await bench.passVm()).toMatchObject({ kind: "after" });
  expect(bench.calls).not.toContain(CREATE);
  expect(await bench.vmi()).toBeUndefined();
  const { status } = (await bench.vm()) ?? {};
  expect(findSyncError(status?.conditions)).toMatchObject({
    reason: "UnauthorizedDataVolumeCreate",
    message: expect.stringContaining("service account default/default") as string,
  });
  expect(status?.printableStatus).toBe("ErrorCreateRefused");
});
