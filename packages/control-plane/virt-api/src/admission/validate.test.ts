// SPDX-License-Identifier: Apache-2.0
// VMs of instancetypes and preferences at admission, and these themselves. Source of the words: KubeVirt
// pkg/instancetype/webhooks.
import {
  CLUSTER_INSTANCETYPES,
  CLUSTER_PREFERENCES,
  CONTROLLER_REVISIONS,
  INSTANCETYPES,
  names,
  PERSISTENT_VOLUME_CLAIMS,
  type Instancetype,
  type KubeObject,
  type Preference,
  type PreferenceSpec,
  type VirtualMachine,
  type VmiSpec,
  DATA_VOLUMES,
  type DataVolume,
} from "@patchbay/api";
import { createFakeStore, type FakeStore } from "@patchbay/kube/testing";
import { beforeEach, describe, expect, test } from "vitest";
import { asked, causesOf } from "../testing/admission.ts";
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
  return validate(depsOn(store), asked(vm, old, user));
}

describe("a VM", () => {
  test("of what is there is stored", async () => {
    const vm = vmOf({ instancetype: { name: "small" }, preference: { name: "linux" } });
    expect(await judge(vm)).toMatchObject({ allowed: true });
  });

  test("of what is not there is refused, with what is missing", async () => {
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

  test("of a revision that is none of an instancetype is refused", async () => {
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

  test("that says what its instancetype decides is refused, with all fields", async () => {
    const domain = { cpu: { cores: 2 }, memory: { guest: "1Gi" } };
    const verdict = await judge(vmOf({ instancetype: { name: "small" } }, domain));
    const base = "spec.template.spec.domain";
    expect(verdict).toMatchObject({ allowed: false, code: 422 });
    expect(causesOf(verdict)).toEqual([
      `FieldValueInvalid ${base}.cpu.cores`,
      `FieldValueInvalid ${base}.memory.guest`,
    ]);
  });

  test("that has not what its preference asks for is refused", async () => {
    store.put(CLUSTER_PREFERENCES, likes({ requirements: { cpu: { guest: 4 } } }));
    const vm = vmOf({ instancetype: { name: "small" }, preference: { name: "linux" } });
    expect(causesOf(await judge(vm))).toEqual(["FieldValueInvalid spec.instancetype"]);
  });

  test("is judged as what it becomes", async () => {
    store.put(CLUSTER_PREFERENCES, likes({ devices: { preferredDiskBus: "nvme" } }));
    const { spec } = aVm().spec.template;
    const volumes = [{ name: "root", containerDisk: { image: "debian" } }];
    const vm = aVm({ preference: { name: "linux" }, template: { spec: { ...spec, volumes } } });
    expect(causesOf(await judge(vm))).toEqual([
      "FieldValueInvalid spec.template.spec.domain.devices.disks[0].disk.bus",
    ]);
  });

  test("is warned of what it becomes and does not get", async () => {
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

  test("of an instancetype of its namespace is judged by that", async () => {
    store.put(INSTANCETYPES, sized(INSTANCETYPES.kind));
    const instancetype = { name: "small", kind: "VirtualMachineInstancetype" };
    expect(await judge(vmOf({ instancetype }))).toMatchObject({ allowed: true });
  });

  test("with the name of a revision's former part is refused", async () => {
    const old = vmOf({ instancetype: { name: "small", revisionName: "r" } });
    const vm = vmOf({ instancetype: { name: "large", revisionName: "r" } });
    expect(causesOf(await judge(vm, old))).toEqual([
      "FieldValueInvalid spec.instancetype.revisionName",
    ]);
  });
});

describe("what was wrong before", () => {
  const old = vmOf({ instancetype: { name: "gone" } });
  const halted: VirtualMachine = { ...old, spec: { ...old.spec, runStrategy: "Halted" } };

  test("stands in the way of no other change", async () => {
    expect(await judge(halted, old)).toMatchObject({ allowed: true });
  });

  test("is no matter to our own services", async () => {
    const user = "system:serviceaccount:patchbay:virt-controller";
    const clash = vmOf({ instancetype: { name: "small" } }, { cpu: { cores: 1 } });
    expect(await judge(clash, vmOf({}), user)).toMatchObject({ allowed: true });
  });
});

describe("what is filled in", () => {
  test("the kinds, as KubeVirt writes them", async () => {
    const vm = vmOf({
      instancetype: { name: "small" },
      preference: { name: "linux", kind: "VirtualMachinePreference" },
    });
    const value = "virtualmachineclusterinstancetype";
    expect(await mutate(depsOn(store), asked(vm))).toEqual({
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

  test("what labels of the volume's claim name, and the memory goes that the instancetype says", async () => {
    putClaim({
      [names.DEFAULT_INSTANCETYPE_LABEL]: "small",
      [names.DEFAULT_PREFERENCE_LABEL]: "linux",
    });
    const vm = onClaim(
      { instancetype: INFERRED, preference: { inferFromVolume: "root" } },
      { memory: { guest: "1Gi" } },
    );
    const kind = "virtualmachineclusterinstancetype";
    expect(await mutate(depsOn(store), asked(vm))).toEqual({
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

  test("a volume that names nothing, and may be left out, goes", async () => {
    putClaim({});
    expect(await mutate(depsOn(store), asked(onClaim({ preference: INFERRED })))).toEqual({
      allowed: true,
      patch: [{ op: "remove", path: "/spec/preference" }],
    });
  });

  test("not a volume that names nothing: it is refused", async () => {
    putClaim({});
    const vm = onClaim({ preference: { inferFromVolume: "root" } });
    expect(await mutate(depsOn(store), asked(vm))).toEqual({
      allowed: false,
      code: 400,
      causes: [],
      message: `unable to find required ${names.DEFAULT_PREFERENCE_LABEL} label on the volume`,
    });
  });

  test("nor into what says a name beside it, which the validation refuses", async () => {
    const vm = onClaim({ preference: { inferFromVolume: "root", name: "linux" } });
    expect(await mutate(depsOn(store), asked(vm))).toMatchObject({ allowed: true });
    expect(causesOf(await judge(vm))).toEqual(["FieldValueNotFound spec.preference.name"]);
  });

  test.each([{ instancetype: "small" }, { instancetype: { name: 5 } }, { preference: [] }])(
    "nothing into %j, which the schema refuses",
    async (parts) => {
      const vm = aVm();
      // As a client may send it.
      const object = { ...vm, spec: { ...vm.spec, ...parts } } as unknown as VirtualMachine;
      expect(await mutate(depsOn(store), asked(object))).toEqual({ allowed: true });
    },
  );
});

/** The question about an object of another kind. */
function askedOf(kind: string, spec: unknown): AdmissionRequest {
  const object = { apiVersion: "any/v1", kind, metadata: { name: "a" }, spec };
  return { ...asked(aVm()), kind, object };
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
  "a %s is refused, with what to do instead",
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

test("of a kind that nobody knows nothing is said", async () => {
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
])("$name is judged: $fields", async ({ object, old, fields }) => {
  const verdict = await validate(depsOn(createFakeStore()), asked(object, old));
  expect(causesOf(verdict)).toEqual(fields);
});
