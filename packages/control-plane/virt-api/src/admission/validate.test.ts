// SPDX-License-Identifier: Apache-2.0
// Admission of VMs with instancetypes and preferences, and of these kinds. Source of the messages: KubeVirt
// pkg/instancetype/webhooks.
import {
  CLUSTER_INSTANCETYPES,
  CLUSTER_PREFERENCES,
  CONTROLLER_REVISIONS,
  INSTANCETYPES,
  names,
  PERSISTENT_VOLUME_CLAIMS,
  type Instancetype,
  type Preference,
  type PreferenceSpec,
  type VirtualMachine,
  type VmiSpec,
  DATA_VOLUMES,
  type DataVolume,
} from "@patchbay/api";
import type { KubeObject } from "@patchbay/api/kubernetes";
import { createFakeStore, type FakeStore } from "@patchbay/kube/testing";
import { beforeEach, describe, expect, test } from "vitest";
import { admissionRequest, causesOf } from "../testing/admission.ts";
import { depsOn } from "../testing/deps.ts";
import { aVm } from "../testing/objects.ts";
import { mutate } from "./mutate.ts";
import type { AdmissionRequest } from "./review.ts";
import { validate } from "./validate.ts";

const GROUP_VERSION = "instancetype.kubevirt.io/v1beta1";

function sized(kind: string, spec: Partial<Instancetype["spec"]> = {}): Instancetype {
  return {
    apiVersion: GROUP_VERSION,
    kind,
    metadata: { name: "small", namespace: "ns" },
    spec: { cpu: { guest: 2 }, memory: { guest: "1Gi" }, ...spec },
  };
}

function likes(spec: PreferenceSpec): Preference {
  const metadata = { name: "linux" };
  return { apiVersion: GROUP_VERSION, kind: CLUSTER_PREFERENCES.kind, metadata, spec };
}

function vmOf(
  parts: Pick<VirtualMachine["spec"], "instancetype" | "preference">,
  domain: VmiSpec["domain"] = {},
): VirtualMachine {
  const vm = aVm(parts);
  const { spec } = vm.spec.template;
  const template = { spec: { ...spec, domain: { ...spec.domain, ...domain } } };
  return { ...vm, spec: { ...vm.spec, template } };
}

let store: FakeStore;

beforeEach(() => {
  store = createFakeStore();
  const metadata = { name: "small" };
  store.put(CLUSTER_INSTANCETYPES, { ...sized(CLUSTER_INSTANCETYPES.kind), metadata });
  store.put(CLUSTER_PREFERENCES, likes({}));
});

async function judge(vm: VirtualMachine, old?: VirtualMachine, user?: string) {
  return validate(depsOn(store), admissionRequest(vm, old, user));
}

describe("a VM", () => {
  test("with an existing instancetype and preference is stored", async () => {
    const vm = vmOf({ instancetype: { name: "small" }, preference: { name: "linux" } });
    expect(await judge(vm)).toMatchObject({ allowed: true });
  });

  test("with a missing instancetype or preference is rejected by name", async () => {
    const verdict = await judge(
      vmOf({ instancetype: { name: "none" }, preference: { name: "none", kind: "Pod" } }),
    );
    expect(verdict).toMatchObject({
      allowed: false,
      code: 422,
      message:
        'Failure to find instancetype: virtualmachineclusterinstancetypes.instancetype.kubevirt.io "none" not found, ' +
        "Failure to find preference: got unexpected kind in PreferenceMatcher: Pod",
    });
    expect(causesOf(verdict)).toEqual([
      "FieldValueNotFound spec.instancetype",
      "FieldValueNotFound spec.preference",
    ]);
  });

  test("with a revision of another kind is rejected", async () => {
    store.put(CONTROLLER_REVISIONS, {
      apiVersion: "apps/v1",
      kind: "ControllerRevision",
      metadata: { name: "r", namespace: "ns" },
      data: { kind: "VirtualMachinePreference", spec: {} },
      revision: 0,
    });
    const vm = vmOf({ instancetype: { name: "small", revisionName: "r" } });
    expect(await judge(vm)).toMatchObject({
      message: "Failure to find instancetype: ControllerRevision r is of no instancetype",
    });
  });

  test("that sets fields of its instancetype is rejected with all fields", async () => {
    const domain = { cpu: { cores: 2 }, memory: { guest: "1Gi" } };
    const verdict = await judge(vmOf({ instancetype: { name: "small" } }, domain));
    const base = "spec.template.spec.domain";
    expect(verdict).toMatchObject({ allowed: false, code: 422 });
    expect(causesOf(verdict)).toEqual([
      `FieldValueInvalid ${base}.cpu.cores`,
      `FieldValueInvalid ${base}.memory.guest`,
    ]);
  });

  test("that does not meet its preference's requirements is rejected", async () => {
    store.put(CLUSTER_PREFERENCES, likes({ requirements: { cpu: { guest: 4 } } }));
    const vm = vmOf({ instancetype: { name: "small" }, preference: { name: "linux" } });
    expect(causesOf(await judge(vm))).toEqual(["FieldValueInvalid spec.instancetype"]);
  });

  test("is validated after expansion", async () => {
    store.put(CLUSTER_PREFERENCES, likes({ devices: { preferredDiskBus: "nvme" } }));
    const { spec } = aVm().spec.template;
    const volumes = [{ name: "root", containerDisk: { image: "debian" } }];
    const vm = aVm({ preference: { name: "linux" }, template: { spec: { ...spec, volumes } } });
    expect(causesOf(await judge(vm))).toEqual([
      "FieldValueInvalid spec.template.spec.domain.devices.disks[0].disk.bus",
    ]);
  });

  test("gets warnings about the expanded specification", async () => {
    store.put(CLUSTER_INSTANCETYPES, {
      ...sized(CLUSTER_INSTANCETYPES.kind, { gpus: [{ name: "g", deviceName: "d" }] }),
      metadata: { name: "small" },
    });
    expect(await judge(vmOf({ instancetype: { name: "small" } }))).toMatchObject({
      allowed: true,
      warnings: [
        "the VM is stored but cannot be started: not supported yet: spec.template.spec.domain.devices.gpus",
      ],
    });
  });

  test("uses the instancetype of its own namespace", async () => {
    store.put(INSTANCETYPES, sized(INSTANCETYPES.kind));
    const instancetype = { name: "small", kind: "VirtualMachineInstancetype" };
    expect(await judge(vmOf({ instancetype }))).toMatchObject({ allowed: true });
  });

  test("with the name of a previous part of a revision is rejected", async () => {
    const old = vmOf({ instancetype: { name: "small", revisionName: "r" } });
    const vm = vmOf({ instancetype: { name: "large", revisionName: "r" } });
    expect(causesOf(await judge(vm, old))).toEqual([
      "FieldValueInvalid spec.instancetype.revisionName",
    ]);
  });
});

describe("faults of the stored object", () => {
  const old = vmOf({ instancetype: { name: "gone" } });
  const halted: VirtualMachine = { ...old, spec: { ...old.spec, runStrategy: "Halted" } };

  test("do not block other changes", async () => {
    expect(await judge(halted, old)).toMatchObject({ allowed: true });
  });

  test("are ignored for Patchbay's own services", async () => {
    const user = "system:serviceaccount:patchbay:virt-controller";
    const clash = vmOf({ instancetype: { name: "small" } }, { cpu: { cores: 1 } });
    expect(await judge(clash, vmOf({}), user)).toMatchObject({ allowed: true });
  });
});

describe("mutation", () => {
  test("sets the kinds in KubeVirt's notation", async () => {
    const vm = vmOf({
      instancetype: { name: "small" },
      preference: { name: "linux", kind: "VirtualMachinePreference" },
    });
    const value = "virtualmachineclusterinstancetype";
    expect(await mutate(depsOn(store), admissionRequest(vm))).toEqual({
      allowed: true,
      patch: [{ op: "add", path: "/spec/instancetype/kind", value }],
    });
  });

  const volumes = [{ name: "root", persistentVolumeClaim: { claimName: "disk" } }];
  const INFERRED = { inferFromVolume: "root", inferFromVolumeFailurePolicy: "Ignore" };

  function onClaim(
    parts: Pick<VirtualMachine["spec"], "instancetype" | "preference">,
    domain: VmiSpec["domain"] = {},
  ): VirtualMachine {
    const vm = vmOf(parts, domain);
    const { template } = vm.spec;
    return { ...vm, spec: { ...vm.spec, template: { spec: { ...template.spec, volumes } } } };
  }

  function putClaim(labels: Readonly<Record<string, string>>): void {
    const metadata = { name: "disk", namespace: "ns", labels };
    store.put(PERSISTENT_VOLUME_CLAIMS, {
      apiVersion: "v1",
      kind: PERSISTENT_VOLUME_CLAIMS.kind,
      metadata,
      spec: {},
    });
  }

  test("infers the instancetype from the claim's labels and removes the memory", async () => {
    putClaim({
      [names.DEFAULT_INSTANCETYPE_LABEL]: "small",
      [names.DEFAULT_PREFERENCE_LABEL]: "linux",
    });
    const vm = onClaim(
      { instancetype: INFERRED, preference: { inferFromVolume: "root" } },
      { memory: { guest: "1Gi" } },
    );
    const kind = "virtualmachineclusterinstancetype";
    expect(await mutate(depsOn(store), admissionRequest(vm))).toEqual({
      allowed: true,
      patch: [
        { op: "add", path: "/spec/instancetype", value: { name: "small", kind } },
        {
          op: "add",
          path: "/spec/preference",
          value: { name: "linux", kind: "virtualmachineclusterpreference" },
        },
        { op: "remove", path: "/spec/template/spec/domain/memory" },
      ],
    });
  });

  test("removes an inference without labels if failures are ignored", async () => {
    putClaim({});
    expect(
      await mutate(depsOn(store), admissionRequest(onClaim({ preference: INFERRED }))),
    ).toEqual({
      allowed: true,
      patch: [{ op: "remove", path: "/spec/preference" }],
    });
  });

  test("rejects an inference without labels", async () => {
    putClaim({});
    const vm = onClaim({ preference: { inferFromVolume: "root" } });
    expect(await mutate(depsOn(store), admissionRequest(vm))).toEqual({
      allowed: false,
      code: 400,
      causes: [],
      message: `unable to find required ${names.DEFAULT_PREFERENCE_LABEL} label on the volume`,
    });
  });

  test("does not infer beside a name, which validation rejects", async () => {
    const vm = onClaim({ preference: { inferFromVolume: "root", name: "linux" } });
    expect(await mutate(depsOn(store), admissionRequest(vm))).toMatchObject({ allowed: true });
    expect(causesOf(await judge(vm))).toEqual(["FieldValueNotFound spec.preference.name"]);
  });

  test.each([{ instancetype: "small" }, { instancetype: { name: 5 } }, { preference: [] }])(
    "does not change %j, which the schema rejects",
    async (parts) => {
      const vm = aVm();
      // A client may send this.
      const object = { ...vm, spec: { ...vm.spec, ...parts } } as unknown as VirtualMachine;
      expect(await mutate(depsOn(store), admissionRequest(object))).toEqual({ allowed: true });
    },
  );
});

/** An admission request for an object of another kind. */
function askedOf(kind: string, spec: unknown): AdmissionRequest {
  const object = { apiVersion: "any/v1", kind, metadata: { name: "a" }, spec };
  return { ...admissionRequest(aVm()), kind, object };
}

describe("instancetypes and preferences", () => {
  test.each([CLUSTER_INSTANCETYPES.kind, INSTANCETYPES.kind])("%s", async (kind) => {
    const memory = { guest: "1Gi", overcommitPercent: 10 };
    const spec = { cpu: { guest: 1 }, memory };
    expect(await validate(depsOn(store), askedOf(kind, spec))).toMatchObject({ allowed: true });
    const huge = { ...spec, memory: { ...memory, hugepages: {} } };
    expect(causesOf(await validate(depsOn(store), askedOf(kind, huge)))).toEqual([
      "FieldValueInvalid spec.memory.overcommitPercent",
    ]);
  });

  test.each([
    { cpu: {}, causes: [], warnings: [] },
    { cpu: { preferredCPUTopology: "cores" }, causes: [], warnings: [] },
    {
      cpu: { preferredCPUTopology: "preferCores" },
      causes: [],
      warnings: [
        "PreferredCPUTopology preferCores is deprecated for removal in a future release, please use cores instead",
      ],
    },
    {
      cpu: { preferredCPUTopology: "spread", spreadOptions: { across: "CoresThreads", ratio: 3 } },
      causes: ["FieldValueInvalid spec.cpu.spreadOptions.ratio"],
      warnings: undefined,
    },
    {
      cpu: { preferredCPUTopology: "spread", spreadOptions: { across: "SocketsCores", ratio: 3 } },
      causes: [],
      warnings: [],
    },
  ])("a preference of $cpu", async ({ cpu, causes, warnings }) => {
    const kind = "VirtualMachinePreference";
    const verdict = await validate(depsOn(store), askedOf(kind, { cpu }));
    expect(causesOf(verdict)).toEqual(causes);
    expect(verdict.allowed ? verdict.warnings : undefined).toEqual(warnings);
  });
});

test.each(["VirtualMachineInstanceReplicaSet", "VirtualMachinePool"])(
  "rejects a %s and names the alternative",
  async (kind) => {
    expect(await validate(depsOn(store), askedOf(kind, {}))).toEqual({
      allowed: false,
      code: 403,
      message: expect.stringMatching(
        `^Patchbay does not run ${kind}s: .* Write a VirtualMachine for each`,
      ) as string,
      causes: [],
    });
  },
);

test("accepts objects of unknown kinds", async () => {
  const object: KubeObject = { apiVersion: "v1", kind: "toString", metadata: { name: "a" } };
  expect(await validate(depsOn(store), { ...askedOf("toString", {}), object })).toEqual({
    allowed: true,
  });
});

const STORAGE = { resources: { requests: { storage: "1Gi" } } };

function aDataVolume(source: object): DataVolume {
  return {
    apiVersion: "cdi.kubevirt.io/v1beta1",
    kind: DATA_VOLUMES.kind,
    metadata: { name: "root", namespace: "ns" },
    spec: { source, storage: STORAGE },
  };
}

const GOOD = aDataVolume({ http: { url: "https://example.org/a.qcow2" } });
const OTHER = aDataVolume({ http: { url: "https://example.org/b.qcow2" } });

test.each([
  { name: "a source that the machine has", object: GOOD, old: undefined, fields: [] },
  {
    name: "an upload",
    object: aDataVolume({ upload: {} }),
    old: undefined,
    fields: ["FieldValueNotSupported spec.source.upload"],
  },
  { name: "a change of its labels", object: GOOD, old: GOOD, fields: [] },
  {
    name: "a change of its source",
    object: OTHER,
    old: GOOD,
    fields: ["FieldValueForbidden spec"],
  },
])("$name: rejects $fields", async ({ object, old, fields }) => {
  const verdict = await validate(depsOn(createFakeStore()), admissionRequest(object, old));
  expect(causesOf(verdict)).toEqual(fields);
});
