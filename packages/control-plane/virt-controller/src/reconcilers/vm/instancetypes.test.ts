// SPDX-License-Identifier: Apache-2.0
// A VM with instancetype and preference: stored revisions, the expanded VMI, and later changes.
import {
  CLUSTER_INSTANCETYPES,
  CONTROLLER_REVISIONS,
  PREFERENCES,
  VIRTUAL_MACHINE_INSTANCES,
  VIRTUAL_MACHINES,
  type Instancetype,
  type Matcher,
  type Preference,
  type VirtualMachine,
} from "@patchbay/api";
import { findSyncError } from "@patchbay/core/status";
import { ifacesOf } from "@patchbay/core/nics";
import { aVm } from "@patchbay/support";
import { beforeEach, describe, expect, test } from "vitest";
import { Bench, KEY } from "../../testing/bench.ts";

const MAC = "02:00:00:00:00:01";
const OTHER_MAC = "02:00:00:00:00:02";
const REVISION = "vm1-small-v1beta1-type-uid-1";
const LIKED = "vm1-linux-v1beta1-likes-uid-1";

function sized(guest: number, generation = 1): Instancetype {
  return {
    apiVersion: "instancetype.kubevirt.io/v1beta1",
    kind: "VirtualMachineClusterInstancetype",
    metadata: { name: "small", uid: "type-uid", generation },
    spec: { cpu: { guest }, memory: { guest: "64Mi" } },
  };
}

function likes(preferredInterfaceModel: string, generation = 1): Preference {
  return {
    apiVersion: "instancetype.kubevirt.io/v1beta1",
    kind: "VirtualMachinePreference",
    metadata: { name: "linux", namespace: "default", uid: "likes-uid", generation },
    spec: { cpu: { preferredCPUTopology: "cores" }, devices: { preferredInterfaceModel } },
  };
}

/** A VM without memory, which its instancetype defines. */
function vmOf(parts: {
  readonly instancetype?: Matcher;
  readonly preference?: Matcher;
}): VirtualMachine {
  const vm = aVm({ nics: [{ name: "one", mac: MAC }] });
  const { domain, ...rest } = vm.spec.template.spec;
  const { firmware = {}, devices = {} } = domain;
  const template = { spec: { ...rest, domain: { firmware, devices } } };
  return { ...vm, spec: { ...vm.spec, ...parts, template } };
}

const SIZE: Matcher = { name: "small" };
const LIKES: Matcher = { name: "linux", kind: "VirtualMachinePreference" };

let bench: Bench;

beforeEach(async () => {
  bench = new Bench();
  await bench.put(CLUSTER_INSTANCETYPES, sized(2));
  await bench.put(PREFERENCES, likes("e1000e"));
});

async function conditions(): Promise<readonly string[]> {
  const { status } = (await bench.vm()) ?? {};
  return (status?.conditions ?? []).map(({ type, message = "" }) => `${type} ${message}`);
}

async function editVm(change: (spec: VirtualMachine["spec"]) => VirtualMachine["spec"]) {
  const vm = await bench.vm();
  if (vm === undefined) throw new RangeError("there is no VM");
  await bench.put(VIRTUAL_MACHINES, { ...vm, spec: change(vm.spec) });
}

async function plugTwo(): Promise<void> {
  await editVm((spec) => {
    const two = { name: "two", bridge: {}, macAddress: OTHER_MAC };
    const { domain, networks = [] } = spec.template.spec;
    const devices = { ...domain.devices, interfaces: [...ifacesOf(spec.template.spec), two] };
    const multus = { networkName: "red" };
    const wanted = {
      ...spec.template.spec,
      domain: { ...domain, devices },
      networks: [...networks, { name: "two", multus }],
    };
    return { ...spec, template: { spec: wanted } };
  });
}

async function run(): Promise<void> {
  const vmi = await bench.vmi();
  if (vmi === undefined) throw new RangeError("there is no VMI");
  await bench.put(VIRTUAL_MACHINE_INSTANCES, {
    ...vmi,
    status: { phase: "Running", interfaces: [{ name: "one" }] },
  });
}

describe("a VM with instancetype and preference", () => {
  beforeEach(async () => {
    await bench.put(VIRTUAL_MACHINES, vmOf({ instancetype: SIZE, preference: LIKES }));
    await bench.passVm();
  });

  test("stores them as its own revisions before it is started", async () => {
    expect(await bench.vmi()).toBeUndefined();
    const revision = await bench.server.find(CONTROLLER_REVISIONS, { ...KEY, name: REVISION });
    expect(revision).toMatchObject({
      metadata: {
        labels: {
          "instancetype.kubevirt.io/object-kind": "VirtualMachineClusterInstancetype",
          "instancetype.kubevirt.io/object-name": "small",
          "instancetype.kubevirt.io/object-generation": "1",
          "instancetype.kubevirt.io/object-uid": "type-uid",
          "instancetype.kubevirt.io/object-version": "v1beta1",
        },
        ownerReferences: [{ kind: "VirtualMachine", name: "vm1", controller: true }],
      },
      data: { kind: "VirtualMachineClusterInstancetype", spec: sized(2).spec },
    });
    expect((await bench.vm())?.status).toMatchObject({
      instancetypeRef: {
        name: "small",
        kind: "virtualmachineclusterinstancetype",
        controllerRevisionRef: { name: REVISION },
      },
      preferenceRef: { ...LIKES, controllerRevisionRef: { name: LIKED } },
    });
  });

  test("is stored unchanged, and its VMI is expanded", async () => {
    await bench.catchUp();
    await bench.settleVm();
    expect((await bench.vm())?.spec).toEqual(vmOf({ instancetype: SIZE, preference: LIKES }).spec);
    expect(await bench.vmi()).toMatchObject({
      metadata: {
        annotations: {
          "kubevirt.io/cluster-instancetype-name": "small",
          "kubevirt.io/preference-name": "linux",
        },
      },
      spec: {
        domain: {
          cpu: { sockets: 1, cores: 2, threads: 1 },
          memory: { guest: "64Mi" },
          devices: { interfaces: [{ name: "one", model: "e1000e" }] },
        },
      },
    });
    expect(await conditions()).not.toContainEqual(expect.stringMatching("RestartRequired"));
  });

  test("is not affected by their changes, also for a NIC that is plugged later", async () => {
    await bench.catchUp();
    await bench.settleVm();
    await run();
    await bench.put(CLUSTER_INSTANCETYPES, sized(8, 2));
    await bench.put(PREFERENCES, likes("rtl8139", 2));
    await plugTwo();
    await bench.settleVm();
    const spec = (await bench.vmi())?.spec ?? { domain: {} };
    expect(ifacesOf(spec).map(({ name, model }) => `${name} ${String(model)}`)).toEqual([
      "one e1000e",
      "two e1000e",
    ]);
    expect(spec.domain.cpu?.cores).toBe(2);
    expect(await conditions()).not.toContainEqual(expect.stringMatching("RestartRequired"));
    const template = (await bench.vm())?.spec.template.spec ?? { domain: {} };
    expect(ifacesOf(template).map(({ model }) => model)).toEqual([undefined, undefined]);
  });

  test("requires a restart for another instancetype", async () => {
    await bench.catchUp();
    await bench.settleVm();
    await run();
    const large = { ...sized(4), metadata: { name: "large", uid: "large-uid", generation: 3 } };
    await bench.put(CLUSTER_INSTANCETYPES, large);
    await editVm((spec) => ({ ...spec, instancetype: { name: "large" } }));
    await bench.settleVm();
    expect((await bench.vm())?.status?.instancetypeRef?.controllerRevisionRef?.name).toBe(
      "vm1-large-v1beta1-large-uid-3",
    );
    expect(await conditions()).toContainEqual(
      expect.stringMatching(/^RestartRequired .*spec\.template\.spec\.domain\.cpu\.cores/),
    );
  });

  test("clears its references when it no longer uses them", async () => {
    await editVm((spec) => {
      const { template, runStrategy = "Always" } = spec;
      return { template, runStrategy };
    });
    await bench.settleVm();
    const { status } = (await bench.vm()) ?? {};
    expect(Object.keys(status ?? {})).not.toContain("instancetypeRef");
    expect(Object.keys(status ?? {})).not.toContain("preferenceRef");
  });
});

describe("missing instancetypes and preferences", () => {
  test("block the start of the VM until they exist", async () => {
    await bench.put(VIRTUAL_MACHINES, vmOf({ instancetype: { name: "none" } }));
    await bench.settleVm();
    const message = 'virtualmachineclusterinstancetypes.instancetype.kubevirt.io "none" not found';
    const { status } = (await bench.vm()) ?? {};
    expect(findSyncError(status?.conditions)).toEqual({
      reason: "FailedFindInstancetype",
      message,
    });
    expect(status?.printableStatus).toBe("ErrorInstancetypeNotFound");
    expect(await bench.vmi()).toBeUndefined();
    await bench.put(CLUSTER_INSTANCETYPES, { ...sized(1), metadata: { name: "none", uid: "u" } });
    await bench.settleVm();
    expect((await bench.vmi())?.spec.domain.cpu?.sockets).toBe(1);
  });

  test("let a running VM be stopped, but block plugs", async () => {
    await bench.put(VIRTUAL_MACHINES, vmOf({ preference: LIKES }));
    await bench.settleVm();
    await run();
    await bench.server.delete(CONTROLLER_REVISIONS, { ...KEY, name: LIKED });
    await plugTwo();
    await bench.settleVm();
    const spec = (await bench.vmi())?.spec ?? { domain: {} };
    expect(ifacesOf(spec).map(({ name }) => name)).toEqual(["one"]);
    const { status } = (await bench.vm()) ?? {};
    expect(findSyncError(status?.conditions)?.reason).toBe("FailedFindPreference");
    await editVm((of) => ({ ...of, runStrategy: "Halted" }));
    await bench.passVm();
    expect(bench.calls).toContain("delete virtualmachineinstances default/vm1");
  });
});

test("names conflicts with the VM and creates no revision", async () => {
  const vm = aVm();
  await bench.put(VIRTUAL_MACHINES, { ...vm, spec: { ...vm.spec, instancetype: SIZE } });
  await bench.settleVm();
  const { status } = (await bench.vm()) ?? {};
  const field = "spec.template.spec.domain.memory.guest";
  expect(findSyncError(status?.conditions)).toEqual({
    reason: "UnsupportedSpec",
    message: `${field}: VM field(s) ${field} conflicts with selected instance type`,
  });
  expect((await bench.server.list(CONTROLLER_REVISIONS)).items).toEqual([]);
});

describe("an existing revision", () => {
  const revision = (uid: string) => ({
    apiVersion: "apps/v1",
    kind: "ControllerRevision",
    metadata: {
      ...KEY,
      name: REVISION,
      ownerReferences: [
        {
          apiVersion: "kubevirt.io/v1",
          kind: "VirtualMachine",
          name: "vm1",
          uid,
          controller: true,
        },
      ],
    },
    data: { kind: "VirtualMachineClusterInstancetype", spec: sized(2).spec },
    revision: 0,
  });

  test("is used if it belongs to the VM", async () => {
    const vm = vmOf({ instancetype: SIZE });
    await bench.put(CONTROLLER_REVISIONS, revision(vm.metadata.uid ?? ""));
    await bench.put(VIRTUAL_MACHINES, vm);
    await bench.settleVm();
    expect((await bench.vmi())?.spec.domain.cpu?.sockets).toBe(2);
  });

  test("of a previous VM with the same name is awaited to be deleted", async () => {
    await bench.put(CONTROLLER_REVISIONS, revision("former"));
    await bench.put(VIRTUAL_MACHINES, vmOf({ instancetype: SIZE }));
    await bench.passVm();
    expect(await bench.vmi()).toBeUndefined();
    const { status } = (await bench.vm()) ?? {};
    expect(findSyncError(status?.conditions)?.reason).toBe("FailedCreate");
  });
});
