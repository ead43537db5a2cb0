// SPDX-License-Identifier: Apache-2.0
import {
  NETWORK_ATTACHMENT_DEFINITIONS,
  VIRTUAL_MACHINE_INSTANCES,
  type Network,
  type VirtualMachine,
  type VmiSpec,
} from "@patchbay/api";
import type { MacOwner } from "@patchbay/core/nics";
import { createFakeStore, type FakeStore } from "@patchbay/kube/testing";
import { beforeEach, describe, expect, test } from "vitest";
import type { Deps } from "../deps.ts";
import {
  admissionRequest,
  BLUE,
  causesOf,
  MAC,
  SOCKET,
  SOCKET_CONFIG,
  POD,
  POD_IFACE,
  specWith,
  vmiWith,
  vmWith,
} from "../testing/admission.ts";
import { depsOn } from "../testing/deps.ts";
import { aVm, aVmi } from "../testing/objects.ts";
import { mutate } from "./mutate.ts";
import type { AdmissionRequest } from "./review.ts";
import { validate } from "./validate.ts";

const NEW_MAC = "02:01:01:01:01:01";

let store: FakeStore;
let owners: readonly MacOwner[];

beforeEach(() => {
  store = createFakeStore();
  owners = [];
  store.put(NETWORK_ATTACHMENT_DEFINITIONS, {
    apiVersion: "k8s.cni.cncf.io/v1",
    kind: "NetworkAttachmentDefinition",
    metadata: { namespace: "ns", name: "blue" },
  });
});

function deps(): Deps {
  return depsOn(store, { listMacOwners: () => owners });
}

function withSockets(): Deps {
  return depsOn(store, { networkConfig: () => SOCKET_CONFIG });
}

describe("mutation", () => {
  const PATH = "/spec/template/spec/domain/devices/interfaces/1";

  test.each<{ name: string; object: VirtualMachine; old?: VirtualMachine; want: object }>([
    {
      name: "a secondary iface gets a binding, and no MAC: its network assigns one",
      object: vmWith({}),
      want: [{ op: "add", path: `${PATH}/bridge`, value: {} }],
    },
    {
      name: "an iface whose network reports no MAC gets one",
      object: vmWith(SOCKET),
      want: [{ op: "add", path: `${PATH}/macAddress`, value: NEW_MAC }],
    },
    {
      name: "a second mutation changes nothing",
      object: vmWith({ bridge: {}, macAddress: MAC }),
      want: [],
    },
    {
      name: "an applied manifest without MAC keeps the stored one",
      object: vmWith(SOCKET),
      old: vmWith({ ...SOCKET, macAddress: MAC }),
      want: [{ op: "add", path: `${PATH}/macAddress`, value: MAC }],
    },
    {
      name: "an absent iface gets no MAC",
      object: vmWith({ ...SOCKET, state: "absent" }),
      want: [],
    },
  ])("$name", async ({ object, old, want }) => {
    expect(await mutate(withSockets(), admissionRequest(object, old))).toEqual({
      allowed: true,
      patch: want,
    });
  });

  test("a NIC that is added again before its unplug has finished retains its MAC", async () => {
    store.put(
      VIRTUAL_MACHINE_INSTANCES,
      vmiWith("vm", { ...SOCKET, macAddress: MAC, state: "absent" }),
    );
    const verdict = await mutate(
      withSockets(),
      admissionRequest(vmWith(SOCKET), vmWith(undefined)),
    );
    expect(verdict).toMatchObject({ patch: [{ path: `${PATH}/macAddress`, value: MAC }] });
  });

  test("defaults of a VMI are patched into its own specification", async () => {
    expect(await mutate(deps(), admissionRequest(vmiWith("lone", {})))).toMatchObject({
      patch: [{ path: "/spec/domain/devices/interfaces/1/bridge" }],
    });
  });

  test.each([
    { spec: undefined },
    { spec: { template: { spec: { domain: "x" } } } },
    { spec: { template: { spec: { domain: { devices: { interfaces: [1] } } } } } },
    { spec: { template: { spec: { domain: {}, networks: {} } } } },
  ])("leaves invalid objects to the schema validation: %j", async ({ spec }) => {
    const object = { ...aVm(), spec };
    const request: AdmissionRequest = { ...admissionRequest(aVm()), object };
    expect(await mutate(deps(), request)).toEqual({ allowed: true });
  });
});

describe("validation of a VM", () => {
  test("rejects with all causes", async () => {
    const verdict = await validate(
      deps(),
      admissionRequest(vmWith({ bridge: {}, model: "x", macAddress: "zz" })),
    );
    expect(causesOf(verdict)).toEqual([
      "FieldValueNotSupported spec.template.spec.domain.devices.interfaces[1].model",
      "FieldValueInvalid spec.template.spec.domain.devices.interfaces[1].macAddress",
    ]);
  });

  const NIC = "spec.template.spec.domain.devices.interfaces[1]";
  test.each([
    { pciAddress: "0000:01:00.0", want: [] },
    { pciAddress: "0000:02:01.0", want: [] },
    { pciAddress: "0000:00:1f.0", want: [`FieldValueInvalid ${NIC}.pciAddress`] },
    { pciAddress: "0000:01:01.0", want: [`FieldValueInvalid ${NIC}.pciAddress`] },
    { pciAddress: "0000:ff:00.0", want: [`FieldValueInvalid ${NIC}.pciAddress`] },
  ])("validates PCI address $pciAddress against the machine type", async ({ pciAddress, want }) => {
    const vm = vmWith({ bridge: {}, model: "e1000", pciAddress });
    expect(causesOf(await validate(deps(), admissionRequest(vm)))).toEqual(want);
    const stored = vmWith({ bridge: {}, pciAddress });
    expect(await validate(deps(), admissionRequest(vm, stored))).toMatchObject({ allowed: true });
  });

  test("rejects invalid annotations of KubeVirt's PCI layout, unless the stored object has them", async () => {
    const withSlots = (count: string): VirtualMachine => {
      const vm = vmWith({ bridge: {} });
      const annotations = { "kubevirt.io/pci-interface-slot-count": count };
      const template = { ...vm.spec.template, metadata: { annotations } };
      return { ...vm, spec: { ...vm.spec, template } };
    };
    const want = [
      "FieldValueInvalid spec.template.metadata.annotations[kubevirt.io/pci-interface-slot-count]",
    ];
    const judge = async (vm: VirtualMachine, old?: VirtualMachine) =>
      causesOf(await validate(deps(), admissionRequest(vm, old)));
    expect(await judge(withSlots("many"))).toEqual(want);
    expect(await judge(withSlots("many"), withSlots("4"))).toEqual(want);
    expect(await judge(withSlots("many"), withSlots("many"))).toEqual([]);
    expect(await judge(withSlots("4"))).toEqual([]);
  });

  test("accepts faults that the stored object already had", async () => {
    const bad = vmWith({ bridge: {}, model: "x" });
    const relabelled = { ...bad, metadata: { ...bad.metadata, labels: { a: "b" } } };
    expect(await validate(deps(), admissionRequest(relabelled, bad))).toEqual({ allowed: true });
  });

  test("warns of a missing network once", async () => {
    const red = { name: "nic1", multus: { networkName: "red" } };
    const vm = vmWith({ bridge: {} }, red);
    const warning =
      'network "nic1": NetworkAttachmentDefinition "ns/red" does not exist yet; the interface waits for it';
    expect(await validate(deps(), admissionRequest(vm, vmWith(undefined)))).toEqual({
      allowed: true,
      warnings: [warning],
    });
    const halted = { ...vm, spec: { ...vm.spec, runStrategy: "Halted" as const } };
    expect(await validate(deps(), admissionRequest(halted, vm))).toMatchObject({ warnings: [] });
  });

  test("suggests the network of the same namespace with the nearest name", async () => {
    const listNetworkNames = (namespace: string) => (namespace === "ns" ? ["blue"] : ["secret"]);
    const known = { ...deps(), listNetworkNames };
    const vm = (networkName: string) =>
      vmWith({ bridge: {} }, { name: "nic1", multus: { networkName } });
    const [own, foreign] = await Promise.all(
      ["bleu", "other/secrt"].map((name) =>
        validate(known, admissionRequest(vm(name), vmWith(undefined))),
      ),
    );
    expect(JSON.stringify(own)).toContain(
      String.raw`\"ns/bleu\" does not exist yet (the nearest name is \"blue\"); the interface waits`,
    );
    expect(JSON.stringify(foreign)).not.toContain("nearest");
  });

  test.each([
    {
      name: "a NIC without a free port on the running VM",
      iface: { bridge: {} },
      free: 0,
      want: `interface "nic1" waits until a port is free: 0 of 1 PCIe ports of the VM are free; unplug an interface, or restart the VM with more spec.domain.devices.pcieRootPorts, or with more vCPUs where the guest's interrupt vectors are used up`,
    },
    {
      name: "a NIC model without hotplug support",
      iface: { bridge: {}, model: "pcnet" },
      free: 1,
      want: `interface "nic1" waits: model pcnet needs I/O ports, which hot-plug ports do not have; use virtio, or add the interface while the VM is stopped`,
    },
  ])("warns of $name", async ({ iface, free, want }) => {
    const vm = { ...vmWith(iface), metadata: { ...aVm().metadata, uid: "vm-uid" } };
    const owner = {
      apiVersion: "kubevirt.io/v1",
      kind: "VirtualMachine",
      name: "vm",
      uid: "vm-uid",
    };
    const running = vmiWith("vm", undefined);
    store.put(VIRTUAL_MACHINE_INSTANCES, {
      ...running,
      metadata: { ...running.metadata, ownerReferences: [{ ...owner, controller: true }] },
      status: { phase: "Running", pciePorts: { total: 1, free } },
    });
    const verdict = await validate(deps(), admissionRequest(vm, vmWith(undefined)));
    expect(verdict).toEqual({ allowed: true, warnings: [want] });
  });

  test("rejects a new MAC that another VM uses on the network, but accepts a stored MAC", async () => {
    owners = [{ namespace: "ns", name: "other", spec: specWith({ macAddress: MAC }) }];
    const vm = vmWith({ bridge: {}, macAddress: MAC });
    const verdict = await validate(deps(), admissionRequest(vm, vmWith(undefined)));
    expect(causesOf(verdict)).toEqual([
      "FieldValueDuplicate spec.template.spec.domain.devices.interfaces[1].macAddress",
    ]);
    expect(verdict).toMatchObject({
      code: 422,
      message: `MAC address ${MAC} is in use on network ns/blue by VM ns/other`,
    });
    const halted = { ...vm, spec: { ...vm.spec, runStrategy: "Halted" as const } };
    expect(await validate(deps(), admissionRequest(halted, vm))).toMatchObject({ allowed: true });
  });
});

describe("a MAC that another VM uses", () => {
  const FIELD = "spec.template.spec.domain.devices.interfaces[1].macAddress";
  const running = vmWith({ bridge: {}, macAddress: MAC });
  const halted = { ...running, spec: { ...running.spec, runStrategy: "Halted" as const } };

  beforeEach(() => {
    owners = [{ namespace: "ns", name: "other", spec: specWith({ macAddress: MAC }) }];
  });

  test("is a warning for a halted VM, which is rejected when it starts", async () => {
    expect(await validate(deps(), admissionRequest(halted))).toMatchObject({
      allowed: true,
      warnings: [
        `${FIELD}: MAC address ${MAC} is in use on network ns/blue by VM ns/other; only one of the two VMs can run at a time`,
      ],
    });
    expect(causesOf(await validate(deps(), admissionRequest(running, halted)))).toEqual([
      `FieldValueDuplicate ${FIELD}`,
    ]);
  });

  test("is rejected for a halted VM whose guest still runs", async () => {
    const withGuest = { ...deps(), hasGuest: () => true };
    const manual = { ...running, spec: { ...running.spec, runStrategy: "Manual" as const } };
    expect(causesOf(await validate(withGuest, admissionRequest(manual)))).toEqual([
      `FieldValueDuplicate ${FIELD}`,
    ]);
  });
});

describe("networks in other namespaces", () => {
  const network = (networkName: string): Network => ({ name: "nic1", multus: { networkName } });
  const SECRET = vmWith({ bridge: {} }, network("secret/blue"));
  const LONE = { ...vmiWith("lone", undefined), spec: SECRET.spec.template.spec };
  const OWNED = { ...vmiWith("vm", undefined), spec: SECRET.spec.template.spec };
  const CONTROLLER = "system:serviceaccount:patchbay:virt-controller";

  test.each([
    { name: "a VM", request: admissionRequest(SECRET) },
    { name: "a change of a VM", request: admissionRequest(SECRET, vmWith({ bridge: {} })) },
    { name: "a VMI", request: admissionRequest(LONE) },
    { name: "a VMI that names a VM as owner", request: admissionRequest(OWNED) },
  ])("$name is rejected if the user may not read them", async ({ request }) => {
    const verdict = await validate(deps(), request);
    expect(verdict).toMatchObject({ allowed: false, code: 403 });
    expect(JSON.stringify(verdict)).toContain('in the namespace \\"secret\\"');
  });

  test.each([
    {
      name: "a user who may read them",
      request: admissionRequest(vmWith({ bridge: {} }, network("shared/b"))),
    },
    {
      name: "the VM's own namespace, with a qualified name",
      request: admissionRequest(vmWith({ bridge: {} }, network("ns/blue"))),
    },
    {
      name: "a change of other fields",
      request: admissionRequest(
        { ...SECRET, spec: { ...SECRET.spec, runStrategy: "Halted" } },
        SECRET,
      ),
    },
    {
      name: "virt-controller, which copies them from the VM",
      request: admissionRequest(OWNED, undefined, CONTROLLER),
    },
  ])("are open to $name", async ({ request }) => {
    expect(await validate(deps(), request)).toMatchObject({ allowed: true });
  });
});

describe("validation of a VMI", () => {
  const PLUGGED = { bridge: {}, macAddress: MAC };

  test("of a VM rejects network changes except by virt-controller, and names the alternative", async () => {
    const request = admissionRequest(
      vmiWith("vm", { bridge: {}, model: "it's" }),
      vmiWith("vm", undefined),
    );
    const verdict = await validate(deps(), request);
    expect(verdict).toMatchObject({ allowed: false, code: 403 });
    const template = {
      spec: {
        networks: [POD, BLUE],
        domain: {
          devices: { interfaces: [POD_IFACE, { name: "nic1", bridge: {}, model: "it'\\''s" }] },
        },
      },
    };
    expect(verdict).toMatchObject({
      message: `the VM vm decides the networks and interfaces of this VMI; change the VM instead: kubectl patch vm vm -n ns --type merge -p '${JSON.stringify({ spec: { template } }).replaceAll("\\\\", "\\")}'`,
    });
  });

  test("of a VM accepts network changes by virt-controller", async () => {
    const user = "system:serviceaccount:patchbay:virt-controller";
    const request = admissionRequest(vmiWith("vm", PLUGGED), vmiWith("vm", undefined), user);
    expect(await validate(deps(), request)).toMatchObject({ allowed: true });
  });

  test("without a VM accepts plugs and unplugs by the user", async () => {
    const plug = admissionRequest(vmiWith("lone", PLUGGED), vmiWith("lone", undefined));
    expect(await validate(deps(), plug)).toEqual({ allowed: true, warnings: [] });
    const unplug = admissionRequest(vmiWith("lone", undefined), vmiWith("lone", PLUGGED));
    expect(await validate(deps(), unplug)).toEqual({ allowed: true, warnings: [] });
  });

  test.each<{ name: string; spec: VmiSpec; want: readonly string[] }>([
    {
      name: "other fields",
      spec: { ...specWith(undefined), terminationGracePeriodSeconds: 1 },
      want: ["FieldValueNotSupported spec"],
    },
    {
      name: "its default network",
      spec: { domain: { devices: { interfaces: [] } }, networks: [] },
      want: ["FieldValueForbidden spec.networks"],
    },
    {
      name: "the pod network's iface to absent",
      spec: {
        domain: { devices: { interfaces: [{ ...POD_IFACE, state: "absent" }] } },
        networks: [POD],
      },
      want: ["FieldValueInvalid spec.domain.devices.interfaces[0].state"],
    },
  ])("without a VM rejects a change of $name", async ({ spec, want }) => {
    const request = admissionRequest({ ...aVmi("lone"), spec }, vmiWith("lone", undefined));
    expect(causesOf(await validate(deps(), request))).toEqual(want);
  });

  test("ignores changes of status or metadata", async () => {
    const vmi = vmiWith("vm", PLUGGED);
    expect(await validate(deps(), admissionRequest({ ...vmi, status: {} }, vmi))).toEqual({
      allowed: true,
    });
  });
});
