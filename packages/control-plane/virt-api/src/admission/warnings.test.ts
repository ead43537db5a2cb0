// SPDX-License-Identifier: Apache-2.0
// Warnings for unsupported fields and bindings.
import {
  networkConfigOf,
  VIRTUAL_MACHINE_INSTANCES,
  type BindingRegistry,
  type VirtualMachine,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { createFakeStore, type FakeStore } from "@patchbay/kube/testing";
import { beforeEach, describe, expect, test } from "vitest";
import type { Deps } from "../deps.ts";
import { admissionRequest, causesOf, specWith, vmiWith, vmWith } from "../testing/admission.ts";
import { depsOn } from "../testing/deps.ts";
import { aVm } from "../testing/objects.ts";
import { mutate } from "./mutate.ts";
import { validate } from "./validate.ts";

let store: FakeStore;

beforeEach(() => {
  store = createFakeStore();
});

function deps(): Deps {
  return depsOn(store, { mayReadNetwork: () => Promise.resolve(true) });
}

describe("unsupported fields", () => {
  test("warns of new fields without effect", async () => {
    const plain = vmWith(undefined);
    const { template } = plain.spec;
    const memory = { hugepages: {}, reservedOverhead: {} };
    const domain = { ...template.spec.domain, memory, launchSecurity: {} };
    const spec = { ...template.spec, domain };
    const vm = { ...plain, spec: { ...plain.spec, template: { spec } } };
    const base = "spec.template.spec.domain";
    expect(await validate(deps(), admissionRequest(vm))).toEqual({
      allowed: true,
      warnings: [
        `the VM is stored but cannot be started: not supported yet: ${base}.memory.hugepages, ${base}.launchSecurity`,
        `stored without effect: ${base}.memory.reservedOverhead`,
      ],
    });
    const halted = { ...vm, spec: { ...vm.spec, runStrategy: "Halted" as const } };
    expect(await validate(deps(), admissionRequest(halted, vm))).toEqual({
      allowed: true,
      warnings: [],
    });
  });

  test("warns of invalid disks and accepts stored ones", async () => {
    const { template } = vmWith(undefined).spec;
    const disks = [{ name: "root", disk: { bus: "nvme" }, bootOrder: 1 }];
    const interfaces = [{ name: "blue", bridge: {}, bootOrder: 1 }];
    const domain = { ...template.spec.domain, devices: { disks, interfaces } };
    const networks = [{ name: "blue", multus: { networkName: "blue" } }];
    const vm = aVm({ template: { spec: { ...template.spec, domain, networks } } });
    const base = "spec.template.spec.domain.devices";
    const fields = ["interfaces[0].bootOrder", "disks[0].name", "disks[0].disk.bus"];
    const causes = fields.map((field) => `FieldValueInvalid ${base}.${field}`);
    const refused = await validate(deps(), admissionRequest(vm));
    expect(causesOf(refused)).toEqual(causes);
    const moved = { ...domain.devices, disks: [{ name: "new" }, ...disks] };
    const volumes = [{ name: "new", emptyDisk: { capacity: "1Gi" } }];
    const changed = { ...vm.spec.template.spec, domain: { ...domain, devices: moved }, volumes };
    const edited = aVm({ template: { spec: changed } });
    expect(await validate(deps(), admissionRequest(edited, vm))).toMatchObject({ allowed: true });
  });

  test.each([
    { count: 10, more: "" },
    { count: 11, more: " and 1 more" },
    { count: 13, more: " and 3 more" },
  ])("names ten of $count", async ({ count, more }) => {
    const nics = Array.from({ length: count }, (_, index) => `nic${String(index)}`);
    const networks = nics.map((name) => ({ name, multus: { networkName: "blue" } }));
    const interfaces = nics.map((name) => ({ name, sriov: {} }));
    const template = { spec: { domain: { devices: { interfaces } }, networks } };
    const path = "spec.template.spec.domain.devices.interfaces";
    const named = nics.slice(0, 10).map((_, index) => `${path}[${String(index)}].sriov`);
    const verdict = await validate(deps(), admissionRequest(aVm({ template })));
    expect(JSON.stringify(verdict)).toContain(`${named.join(", ")}${more}"`);
  });

  test("names only new fields", async () => {
    const domainOf = (domain: object) => {
      const spec = { ...aVm().spec.template.spec, domain };
      return aVm({ template: { spec } });
    };
    const before = domainOf({ launchSecurity: {}, memory: { maxGuest: "1Gi" } });
    const after = domainOf({
      launchSecurity: {},
      devices: { sound: { name: "s" } },
      memory: { maxGuest: "1Gi", hugepages: {} },
    });
    const base = "spec.template.spec.domain";
    expect(await validate(deps(), admissionRequest(after, before))).toEqual({
      allowed: true,
      warnings: [
        `the VM is stored but cannot be started: not supported yet: ${base}.memory.hugepages, ${base}.devices.sound`,
      ],
    });
  });

  test("warns of sidecars that are disabled, and of those on the VM itself", async () => {
    const annotations = { "hooks.kubevirt.io/hookSidecars": '[{"args":[]}]' };
    const name = "annotations[hooks.kubevirt.io/hookSidecars]";
    const allowed = {
      ...deps(),
      networkConfig: () => ({ ...networkConfigOf(undefined), allowsHooks: true }),
    };
    const plain = aVm();
    const template = { ...plain.spec.template, metadata: { annotations } };
    const hooked = aVm({ template });
    const misplaced = { ...plain, metadata: { ...plain.metadata, annotations } };
    const vmi = vmiWith("lone", { bridge: {} });
    const alone = { ...vmi, metadata: { ...vmi.metadata, annotations } };
    const listWarnings = async (object: Parameters<typeof admissionRequest>[0], from = deps()) => {
      const verdict = await validate(from, admissionRequest(object));
      return verdict.allowed ? verdict.warnings?.filter((text) => text.includes("hook")) : verdict;
    };
    const kept = "is stored but cannot be started:";
    const off = ": hooks of VMs are switched off; an administrator adds Sidecar to";
    const unfit = "[0].image: is required";
    const base = "spec.template.metadata.";
    expect(JSON.stringify(await listWarnings(hooked))).toContain(
      `the VM ${kept} ${base}${name}${off}`,
    );
    expect(await listWarnings(misplaced)).toEqual([`stored without effect: metadata.${name}`]);
    expect(JSON.stringify(await listWarnings(alone))).toContain(
      `the VMI ${kept} metadata.${name}${off}`,
    );
    expect(JSON.stringify(await listWarnings(hooked, allowed))).toContain(`${base}${name}${unfit}`);
  });

  test("warns of a service mesh that the guest bypasses", async () => {
    const name = "sidecar.istio.io/inject";
    const { spec } = aVm().spec.template;
    const listFor = async (labels: Record<string, string>, binding: object): Promise<unknown> => {
      const interfaces = [{ name: "default", ...binding }];
      const domain = { ...spec.domain, devices: { ...spec.domain.devices, interfaces } };
      const pod = { ...spec, domain, networks: [{ name: "default", pod: {} }] };
      const vm = aVm({ template: { metadata: { labels }, spec: pod } });
      const verdict = await validate(deps(), admissionRequest(vm));
      return verdict.allowed ? verdict.warnings : verdict;
    };
    expect(await listFor({ [name]: "true" }, { bridge: {} })).toEqual([
      `stored without effect: spec.template.metadata.labels[${name}] (Istio's proxy receives only traffic of interfaces with masquerade binding)`,
    ]);
    expect(await listFor({ [name]: "true" }, { masquerade: {} })).toEqual([]);
    expect(await listFor({ [name]: "false" }, { bridge: {} })).toEqual([]);
  });

  test("warns of networks in an annotation of the template, once", async () => {
    const name = "k8s.v1.cni.cncf.io/networks";
    const metadata = { annotations: { [name]: "default/blue" } };
    const plain = aVm();
    const vm = aVm({ template: { ...plain.spec.template, metadata } });
    const fix = "(declare the networks in spec.networks beside it)";
    expect(await validate(deps(), admissionRequest(vm))).toEqual({
      allowed: true,
      warnings: [`stored without effect: spec.template.metadata.annotations[${name}] ${fix}`],
    });
    const halted = { ...vm, spec: { ...vm.spec, runStrategy: "Halted" as const } };
    expect(await validate(deps(), admissionRequest(halted, vm))).toEqual({
      allowed: true,
      warnings: [],
    });
    const vmi = vmiWith("lone", { bridge: {} });
    const alone = { ...vmi, metadata: { ...vmi.metadata, ...metadata } };
    expect(JSON.stringify(await validate(deps(), admissionRequest(alone)))).toContain(
      `stored without effect: metadata.annotations[${name}] ${fix}`,
    );
  });

  test("warns of a default route by an interface that the VM does not have", async () => {
    const name = "patchbay.io/default-route";
    const plain = aVm();
    const vmBy = (nic: string) =>
      aVm({ template: { ...plain.spec.template, metadata: { annotations: { [name]: nic } } } });
    const missing = `stored without effect: spec.template.metadata.annotations[${name}] (there is no interface "green")`;
    expect(await validate(deps(), admissionRequest(vmBy("green")))).toEqual({
      allowed: true,
      warnings: [missing],
    });
    const vmi = vmiWith("lone", { bridge: {} });
    const [nic] = vmi.spec.domain.devices?.interfaces ?? [];
    const named = {
      ...vmi,
      metadata: { ...vmi.metadata, annotations: { [name]: nic?.name ?? "" } },
    };
    expect(JSON.stringify(await validate(deps(), admissionRequest(named)))).not.toContain(name);
  });

  test("warns of requested addresses without effect, and rejects invalid ones", async () => {
    const name = "network.kubevirt.io/addresses";
    const plain = aVm();
    const judge = (addresses: unknown) => {
      const annotations = { [name]: JSON.stringify(addresses) };
      const template = { ...plain.spec.template, metadata: { annotations } };
      return validate(deps(), admissionRequest(aVm({ template })));
    };
    const field = `spec.template.metadata.annotations[${name}]`;
    expect(await judge({ green: ["10.0.0.5"], default: ["10.0.0.6"] })).toEqual({
      allowed: true,
      warnings: [
        `stored without effect: ${field} (there is no interface "green"), ${field} (interface "default" is on the pod network, which assigns them only if the namespace has a primary network of OVN-Kubernetes)`,
      ],
    });
    const message = '"10.0.0.5/24" of interface "green" is not an IP address without prefix length';
    expect(await judge({ green: ["10.0.0.5/24"] })).toMatchObject({
      allowed: false,
      causes: [{ reason: "FieldValueInvalid", field, message }],
    });
    const vmi = vmiWith("lone", { bridge: {} });
    const metadata = { ...vmi.metadata, annotations: { [name]: "{" } };
    expect(
      JSON.stringify(await validate(deps(), admissionRequest({ ...vmi, metadata }))),
    ).toContain(`"field":"metadata.annotations[${name}]"`);
  });

  test("warns once of DataVolumes if the cluster does not serve them", async () => {
    const plain = aVm();
    const volumes = [{ name: "root", dataVolume: { name: "root" } }];
    const template = { spec: { ...plain.spec.template.spec, volumes } };
    const source = { metadata: { name: "root" }, spec: { pvc: {} } };
    const vm = aVm({ template, dataVolumeTemplates: [source] });
    const without = { ...deps(), servesDataVolumes: () => Promise.resolve(false) };
    expect(JSON.stringify(await validate(without, admissionRequest(vm)))).toMatch(
      /the VM is stored but cannot be started: the DataVolume root cannot be created: .*PersistentVolumeClaim/,
    );
    const halted = { ...vm, spec: { ...vm.spec, runStrategy: "Halted" as const } };
    expect(JSON.stringify(await validate(without, admissionRequest(halted, vm)))).not.toContain(
      "root",
    );
    expect(JSON.stringify(await validate(deps(), admissionRequest(vm)))).not.toContain("root");
  });

  test("never blocks a change of a finalizer or a label", async () => {
    const bare = vmWith({});
    const labelled = { ...bare, metadata: { ...bare.metadata, labels: { a: "b" } } };
    expect(await validate(deps(), admissionRequest(labelled, bare))).toEqual({ allowed: true });
    expect(await mutate(deps(), admissionRequest(labelled, bare))).toEqual({ allowed: true });
    const bad = vmiWith("lone", { bridge: {}, model: "x" });
    const ending = { ...bad.metadata, deletionTimestamp: "2026-01-01T00:00:00Z" };
    const spec = specWith({ bridge: {}, model: "y" });
    const request = admissionRequest({ ...bad, metadata: ending, spec }, bad);
    expect(await validate(deps(), request)).toEqual({ allowed: true });
  });
});

const BINDINGS: BindingRegistry = {
  own: { domainAttachmentType: "tap" },
  bare: {},
};

function depsWith(bindings: BindingRegistry): Deps {
  return { ...deps(), networkConfig: () => ({ ...networkConfigOf(undefined), bindings }) };
}

function putVmi(status: VirtualMachineInstance["status"]): void {
  const owner = {
    apiVersion: "kubevirt.io/v1",
    kind: "VirtualMachine",
    name: "vm",
    uid: "uid",
  };
  const running = vmiWith("vm", undefined);
  const metadata = { ...running.metadata, ownerReferences: [{ ...owner, controller: true }] };
  store.put(VIRTUAL_MACHINE_INSTANCES, { ...running, metadata, ...(status && { status }) });
}

function of(vm: VirtualMachine): VirtualMachine {
  return { ...vm, metadata: { ...vm.metadata, uid: "uid" } };
}

describe.each([
  { field: "sriov", binding: { sriov: {} } },
  { field: "passtBinding", binding: { passtBinding: {} } },
  { field: "binding", binding: { binding: { name: "unheard" } } },
  { field: "binding", binding: { binding: { name: "bare" } } },
])("an interface with an unsupported binding: $binding", ({ field, binding }) => {
  const UNBUILT = vmWith(binding);
  const PATH = `spec.template.spec.domain.devices.interfaces[1].${field}`;

  function judged(...request: Parameters<typeof admissionRequest>): ReturnType<typeof validate> {
    return validate(depsWith(BINDINGS), admissionRequest(...request));
  }

  test("warns once when the VM is stored", async () => {
    const verdict = await judged(UNBUILT);
    expect(verdict).toMatchObject({ allowed: true });
    expect(JSON.stringify(verdict)).toContain(PATH);
    const halted = { ...UNBUILT, spec: { ...UNBUILT.spec, runStrategy: "Halted" as const } };
    expect(await judged(halted, UNBUILT)).toEqual({ allowed: true, warnings: [] });
  });

  test("rejects it while the guest runs", async () => {
    putVmi({ phase: "Running" });
    const verdict = await judged(of(UNBUILT), of(vmWith(undefined)));
    expect(causesOf(verdict)).toEqual([`FieldValueNotSupported ${PATH}`]);
    const leaving = of(vmWith({ bridge: {}, state: "absent" }));
    expect(causesOf(await judged(of(UNBUILT), leaving))).toEqual([
      `FieldValueNotSupported ${PATH}`,
    ]);
  });

  test("accepts it in a stopped VM", async () => {
    const edit = [of(UNBUILT), of(vmWith(undefined))] as const;
    expect(await judged(...edit)).toMatchObject({ allowed: true });
    putVmi({ phase: "Succeeded" });
    expect(await judged(...edit)).toMatchObject({ allowed: true });
  });

  test("accepts a stored one", async () => {
    putVmi({ phase: "Running" });
    const halted = { ...UNBUILT.spec, runStrategy: "Halted" as const };
    const verdict = await judged(of({ ...UNBUILT, spec: halted }), of(UNBUILT));
    expect(verdict).toMatchObject({ allowed: true });
  });

  test("rejects it for a running VMI without a VM", async () => {
    const verdict = await judged(vmiWith("lone", binding), vmiWith("lone", undefined));
    expect(causesOf(verdict)).toEqual([
      `FieldValueNotSupported spec.domain.devices.interfaces[1].${field}`,
    ]);
  });
});

test("accepts a registered binding for a VM and a VMI without a VM", async () => {
  putVmi({ phase: "Running" });
  const own = { binding: { name: "own" } };
  const edits = [
    admissionRequest(of(vmWith(own)), of(vmWith(undefined))),
    admissionRequest(vmiWith("lone", own), vmiWith("lone", undefined)),
  ];
  for (const edit of edits) {
    expect(await validate(depsWith(BINDINGS), edit)).toMatchObject({ allowed: true });
    expect(await validate(depsWith({}), edit)).toMatchObject({ allowed: false });
  }
});

test("states why a binding is unavailable", async () => {
  const verdict = await validate(
    depsWith(BINDINGS),
    admissionRequest(vmWith({ binding: { name: "bare" } })),
  );
  expect(JSON.stringify(verdict)).toContain(
    'binding: \\"bare\\" is registered with no domainAttachmentType; use tap, managedTap or vhostuser',
  );
});
