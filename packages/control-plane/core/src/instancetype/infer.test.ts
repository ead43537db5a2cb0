// SPDX-License-Identifier: Apache-2.0
// What a volume names. Source of the order and the words: KubeVirt pkg/instancetype/infer.
import {
  DATA_SOURCES,
  DATA_VOLUMES,
  names,
  PERSISTENT_VOLUME_CLAIMS,
  type Matcher,
  type ResourceType,
  type VirtualMachine,
} from "@patchbay/api";
import type { KubeObject } from "@patchbay/api/kubernetes";
import { aVm } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import { inferInstancetypes, type FindObject } from "./infer.ts";

const NAMESPACE = "blue";
const LABELS = {
  [names.DEFAULT_INSTANCETYPE_LABEL]: "small",
  [names.DEFAULT_PREFERENCE_LABEL]: "linux",
  [names.DEFAULT_PREFERENCE_KIND_LABEL]: "VirtualMachinePreference",
};
const SMALL = { name: "small", kind: "virtualmachineclusterinstancetype" };
const LINUX = { name: "linux", kind: "VirtualMachinePreference" };

/** An object by its kind and NAMESPACE/NAME. */
type World = Readonly<Record<string, Partial<KubeObject> & { readonly spec?: unknown }>>;

function finderOf(world: World): FindObject {
  return <T extends KubeObject>(
    { kind }: ResourceType<T>,
    { namespace = "", name }: { readonly namespace?: string; readonly name: string },
  ) => {
    const found = world[`${kind} ${namespace}/${name}`];
    // As the test wrote it.
    return Promise.resolve(found && ({ metadata: { name }, ...found } as unknown as T));
  };
}

const labelled = (name: string): Pick<KubeObject, "metadata"> => ({
  metadata: { name, labels: LABELS },
});

function vmOf(volume: unknown, more: Partial<VirtualMachine["spec"]> = {}): VirtualMachine {
  const vm = aVm();
  const { template } = vm.spec;
  // Nothing was judged yet.
  const spec = {
    ...template.spec,
    volumes: [volume],
  } as VirtualMachine["spec"]["template"]["spec"];
  return {
    ...vm,
    metadata: { ...vm.metadata, namespace: NAMESPACE },
    spec: { ...vm.spec, template: { ...template, spec }, ...more },
  };
}

const ROOT: Matcher = { inferFromVolume: "root" };
const BOTH = { instancetype: ROOT, preference: ROOT };
const CLAIM = { name: "root", persistentVolumeClaim: { claimName: "disk" } };
const DATA_VOLUME = { name: "root", dataVolume: { name: "disk" } };
const CLAIM_KEY = `${PERSISTENT_VOLUME_CLAIMS.kind} blue/disk`;
const GOLDEN = { [`${PERSISTENT_VOLUME_CLAIMS.kind} images/gold`]: labelled("gold") };
const FROM_GOLDEN = { source: { pvc: { namespace: "images", name: "gold" } } };
const FROM_SOURCE = { sourceRef: { kind: "DataSource", namespace: "images", name: "debian" } };
const SOURCE_KEY = `${DATA_SOURCES.kind} images/debian`;
const VOLUME_KEY = `${DATA_VOLUMES.kind} blue/disk`;

function templateOf(spec: object): Pick<VirtualMachine["spec"], "dataVolumeTemplates"> {
  return { dataVolumeTemplates: [{ metadata: { name: "disk" }, spec: { ...spec } }] };
}

describe("infers instancetype and preference from", () => {
  test.each<{ by: string; volume: unknown; world: World; more?: Partial<VirtualMachine["spec"]> }>([
    { by: "a claim", volume: CLAIM, world: { [CLAIM_KEY]: labelled("disk") } },
    { by: "a DataVolume", volume: DATA_VOLUME, world: { [VOLUME_KEY]: labelled("disk") } },
    {
      by: "the claim of a DataVolume that CDI has taken away",
      volume: DATA_VOLUME,
      world: { [CLAIM_KEY]: labelled("disk") },
    },
    {
      by: "the claim of which a DataVolume is a copy",
      volume: DATA_VOLUME,
      world: { ...GOLDEN, [VOLUME_KEY]: { spec: FROM_GOLDEN } },
    },
    {
      by: "the claim of which a template's DataVolume will be a copy",
      volume: DATA_VOLUME,
      world: GOLDEN,
      more: templateOf(FROM_GOLDEN),
    },
    {
      by: "the DataSource of a template",
      volume: DATA_VOLUME,
      world: { [SOURCE_KEY]: labelled("debian") },
      more: templateOf(FROM_SOURCE),
    },
    {
      by: "the claim of the DataSource of a DataVolume",
      volume: DATA_VOLUME,
      world: {
        ...GOLDEN,
        [VOLUME_KEY]: { spec: FROM_SOURCE },
        [SOURCE_KEY]: { spec: { source: { pvc: { name: "gold" } } } },
      },
    },
  ])("$by", async ({ volume, world, more }) => {
    const inferred = await inferInstancetypes(vmOf(volume, { ...BOTH, ...more }), finderOf(world));
    expect(inferred.kind === "vm" && inferred.vm.spec).toMatchObject({
      instancetype: SMALL,
      preference: LINUX,
    });
  });
});

/** What says nothing, with KubeVirt's words. */
const SILENT: readonly { name: string; volume: unknown; world: World; message: string }[] = [
  {
    name: "a claim without the label",
    volume: CLAIM,
    world: { [CLAIM_KEY]: {} },
    message: `unable to find required ${names.DEFAULT_INSTANCETYPE_LABEL} label on the volume`,
  },
  {
    name: "a volume of another type",
    volume: { name: "root", containerDisk: { image: "debian" } },
    world: {},
    message: "unable to infer defaults from volume root as type is not supported",
  },
  {
    name: "a DataVolume with another source",
    volume: DATA_VOLUME,
    world: { [VOLUME_KEY]: { spec: { source: { http: {} } } } },
    message: "unable to infer defaults from DataVolumeSpec as DataVolumeSource is not supported",
  },
  {
    name: "a DataSource that does not refer to a claim",
    volume: DATA_VOLUME,
    world: {
      [VOLUME_KEY]: { spec: FROM_SOURCE },
      [SOURCE_KEY]: { spec: { source: { pvc: null } } },
    },
    message: "unable to infer defaults from DataSource that doesn't provide DataVolumeSourcePVC",
  },
  {
    name: "a sourceRef of another kind",
    volume: DATA_VOLUME,
    world: { [VOLUME_KEY]: { spec: { sourceRef: { kind: "Other", name: "x" } } } },
    message: "unable to infer defaults from DataVolumeSourceRef as Kind Other is not supported",
  },
];

describe.each(SILENT)("$name", ({ volume, world, message }) => {
  test("is rejected", async () => {
    const inferred = await inferInstancetypes(
      vmOf(volume, { instancetype: ROOT }),
      finderOf(world),
    );
    expect(inferred).toEqual({ kind: "refused", message });
  });

  test("is ignored on request", async () => {
    const lenient: Matcher = { ...ROOT, inferFromVolumeFailurePolicy: "Ignore" };
    const vm = vmOf(volume, { instancetype: lenient, preference: lenient });
    const inferred = await inferInstancetypes(vm, finderOf(world));
    expect(inferred).toEqual({ kind: "vm", vm: vmOf(volume) });
  });
});

test.each<{ name: string; volume: unknown; message: string }>([
  {
    name: "a volume missing in the VM",
    volume: { name: "data" },
    message: "unable to find volume root to infer defaults",
  },
  {
    name: "a missing claim",
    volume: CLAIM,
    message: 'persistentvolumeclaims "disk" not found',
  },
  {
    name: "a DataVolume without template, object and claim",
    volume: DATA_VOLUME,
    message: 'persistentvolumeclaims "disk" not found',
  },
])("$name is rejected with any policy", async ({ volume, message }) => {
  const lenient: Matcher = { ...ROOT, inferFromVolumeFailurePolicy: "Ignore" };
  const inferred = await inferInstancetypes(vmOf(volume, { preference: lenient }), finderOf({}));
  expect(inferred).toEqual({ kind: "refused", message });
});

test("uses the memory of an optional instancetype if it is found", async () => {
  const vm = vmOf(CLAIM, { instancetype: { ...ROOT, inferFromVolumeFailurePolicy: "Ignore" } });
  const inferred = await inferInstancetypes(vm, finderOf({ [CLAIM_KEY]: labelled("disk") }));
  const { memory, ...others } = vm.spec.template.spec.domain;
  expect(memory).toBeDefined();
  expect(inferred.kind === "vm" && inferred.vm.spec.template.spec.domain).toEqual(others);
});

test.each([undefined, null, "disk", [null, 5, { name: "root", persistentVolumeClaim: 3 }]])(
  "rejects volumes that are %j without an exception",
  async (volumes) => {
    const vm = vmOf(CLAIM, { instancetype: ROOT });
    const { template } = vm.spec;
    const broken = {
      ...vm,
      spec: { ...vm.spec, template: { ...template, spec: { ...template.spec, volumes } } },
    } as unknown as VirtualMachine; // as a client may send it
    expect(await inferInstancetypes(broken, finderOf({}))).toMatchObject({ kind: "refused" });
  },
);
