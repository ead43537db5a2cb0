// SPDX-License-Identifier: Apache-2.0
// Adding and removing an iface: what happens to VMs and VMIs.
import type {
  Iface,
  Network,
  VirtualMachine,
  VirtualMachineInstance,
  VmiStatus,
} from "@patchbay/api";
import { describe, expect, test } from "vitest";
import { planAddIface } from "./add-iface.ts";
import type { AddIfaceRequest } from "./nic-body.ts";
import type { NicPlan } from "./outcome.ts";
import { planRemoveIface } from "./remove-iface.ts";
import type { NicTarget } from "./target.ts";

const POD_NETWORK: Network = { name: "default", pod: {} };
const POD_IFACE: Iface = { name: "default", bridge: {} };
const BLUE_NETWORK: Network = { name: "blue", multus: { networkName: "blue-nad" } };
const BLUE: Iface = { name: "blue", bridge: {}, macAddress: "02:00:00:00:00:01" };

interface Nics {
  readonly networks?: readonly Network[];
  readonly ifaces?: readonly Iface[];
}

function specOf({ networks = [POD_NETWORK], ifaces = [POD_IFACE] }: Nics) {
  return { domain: { devices: { interfaces: [...ifaces] } }, networks: [...networks] };
}

function aVm(nics: Nics = {}): VirtualMachine {
  return {
    apiVersion: "kubevirt.io/v1",
    kind: "VirtualMachine",
    metadata: { name: "vm", namespace: "ns", resourceVersion: "7" },
    spec: { runStrategy: "Always", template: { spec: specOf(nics) } },
  };
}

function aVmi(nics: Nics = {}, status: VmiStatus = { phase: "Running" }): VirtualMachineInstance {
  return {
    apiVersion: "kubevirt.io/v1",
    kind: "VirtualMachineInstance",
    metadata: { name: "vm", namespace: "ns" },
    spec: specOf(nics),
    status,
  };
}

const WITH_BLUE: Nics = { networks: [POD_NETWORK, BLUE_NETWORK], ifaces: [POD_IFACE, BLUE] };
const WITH_ABSENT: Nics = { ...WITH_BLUE, ifaces: [POD_IFACE, { ...BLUE, state: "absent" }] };

function add(target: NicTarget, request: Partial<AddIfaceRequest> = {}, nadExists = true): NicPlan {
  const defaults = { name: "blue", networkAttachmentDefinitionName: "blue-nad", fields: {} };
  return planAddIface({ target, request: { ...defaults, ...request }, nadExists });
}

function remove(target: NicTarget, name = "blue"): NicPlan {
  return planRemoveIface({ target, request: { name } });
}

/** What the patch leaves behind. */
function writtenNics(plan: NicPlan): unknown {
  return plan.kind === "patch"
    ? plan.operations.flatMap((each) => (each.op === "add" ? [each.value] : []))
    : plan;
}

/** Code and fields of a refusal. */
function refusalOf(plan: NicPlan): unknown {
  return plan.kind === "refused"
    ? [plan.refusal.code, ...plan.refusal.causes.map(({ reason, field }) => `${reason} ${field}`)]
    : plan;
}

describe("adding", () => {
  test("to a VM tests both lists and appends to both", () => {
    const vm = aVm();
    const path = "/spec/template/spec";
    expect(add({ kind: "vm", vm, vmi: aVmi() })).toEqual({
      kind: "patch",
      effect: "live",
      message: "interface 'blue' will be plugged into the running guest",
      operations: [
        { op: "test", path: `${path}/networks`, value: [POD_NETWORK] },
        { op: "test", path: `${path}/domain/devices/interfaces`, value: [POD_IFACE] },
        { op: "add", path: `${path}/networks`, value: [POD_NETWORK, BLUE_NETWORK] },
        {
          op: "add",
          path: `${path}/domain/devices/interfaces`,
          value: [POD_IFACE, { name: "blue", bridge: {} }],
        },
      ],
    });
  });

  test("to a stopped VM is for its next start", () => {
    expect(add({ kind: "vm", vm: aVm() })).toMatchObject({ kind: "patch", effect: "start" });
  });

  test("to a VM without any list tests its version instead", () => {
    const vm: VirtualMachine = { ...aVm(), spec: { template: { spec: { domain: {} } } } };
    expect(add({ kind: "vm", vm })).toMatchObject({
      operations: [
        { op: "test", path: "/metadata/resourceVersion", value: "7" },
        { op: "add", path: "/spec/template/spec/networks" },
        {
          op: "add",
          path: "/spec/template/spec/domain/devices",
          value: { interfaces: [{ name: "blue" }] },
        },
      ],
    });
  });

  test("to a VMI writes its own specification", () => {
    expect(add({ kind: "vmi", vmi: aVmi() })).toMatchObject({
      operations: [{ path: "/spec/networks" }, { path: "/spec/domain/devices/interfaces" }, {}, {}],
    });
  });

  test("takes fields along", () => {
    const fields = { model: "e1000e", macAddress: "02:00:00:00:00:09", state: "down" };
    expect(writtenNics(add({ kind: "vm", vm: aVm() }, { fields }))).toMatchObject([
      {},
      [POD_IFACE, { name: "blue", bridge: {}, ...fields }],
    ]);
  });

  test("the same again changes nothing, also while the definition is gone", () => {
    const target: NicTarget = { kind: "vm", vm: aVm(WITH_BLUE) };
    const full = { networkAttachmentDefinitionName: "ns/blue-nad" };
    expect(add(target, {}, false).kind).toBe("unchanged");
    expect(add(target, full).kind).toBe("unchanged");
    expect(add(target, { fields: { macAddress: "02-00-00-00-00-01" } }).kind).toBe("unchanged");
  });

  test("takes an unplug back", () => {
    expect(writtenNics(add({ kind: "vm", vm: aVm(WITH_ABSENT), vmi: aVmi() }))).toEqual([
      [POD_NETWORK, BLUE_NETWORK],
      [POD_IFACE, BLUE],
    ]);
  });

  test("keeps the MAC of an entry that was deleted from the VM and has not left the guest", () => {
    const plan = add({ kind: "vm", vm: aVm(), vmi: aVmi(WITH_ABSENT) });
    expect(writtenNics(plan)).toMatchObject([{}, [{}, { macAddress: BLUE.macAddress }]]);
  });

  test.each([
    { name: "the guest's own", vmi: aVmi(WITH_ABSENT), fields: {}, want: BLUE.macAddress },
    {
      name: "the request's",
      vmi: aVmi(WITH_ABSENT),
      fields: { macAddress: "02:00:00:00:00:08" },
      want: "02:00:00:00:00:08",
    },
    { name: "a new one", vmi: aVmi(), fields: {}, want: "02:00:00:00:00:09" },
  ])("gives it $name as MAC", ({ vmi, fields, want }) => {
    const plan = planAddIface({
      target: { kind: "vm", vm: aVm(), vmi },
      request: { name: "blue", networkAttachmentDefinitionName: "blue-nad", fields },
      nadExists: true,
      newMac: "02:00:00:00:00:09",
    });
    expect(writtenNics(plan)).toMatchObject([{}, [{}, { macAddress: want }]]);
  });

  const PORTS = { phase: "Running", pciePorts: { total: 8, free: 1 } } as const;
  const PLUGGED = {
    ...PORTS,
    interfaces: [{ name: "blue", pciAddress: "0000:02:00.0" }],
  };
  const RED = { name: "red", networkAttachmentDefinitionName: "red-nad" };

  test("counts the ports of interfaces that are being plugged", () => {
    const vm = aVm(WITH_BLUE);
    expect(refusalOf(add({ kind: "vm", vm, vmi: aVmi(WITH_BLUE, PORTS) }, RED))).toEqual([409]);
    expect(add({ kind: "vm", vm, vmi: aVmi(WITH_BLUE, PLUGGED) }, RED).kind).toBe("patch");
  });

  test.each([
    {
      name: "refused by a VM with ports that runs",
      machine: "q35",
      status: PORTS,
      want: "refused",
    },
    { name: "taken by a VM with slots", machine: "pc", status: PORTS, want: "patch" },
    {
      name: "taken before the start",
      machine: "q35",
      status: { phase: "Scheduled" },
      want: "patch",
    },
  ] as const)("a model that needs I/O ports is $name", ({ machine, status, want }) => {
    const vmi = aVmi({}, status);
    const domain = { ...vmi.spec.domain, machine: { type: machine } };
    const target = { ...vmi, spec: { ...vmi.spec, domain } };
    const request = { ...RED, fields: { model: "pcnet" } };
    const plan = add({ kind: "vm", vm: aVm(), vmi: target }, request);
    expect(plan.kind).toBe(want);
    expect(refusalOf(plan)).toEqual(want === "refused" ? [409] : plan);
  });

  test.each<{ name: string; plan: NicPlan; want: readonly unknown[] }>([
    {
      name: "to a VMI that does not run",
      plan: add({ kind: "vmi", vmi: aVmi({}, { phase: "Scheduled" }) }),
      want: [409],
    },
    {
      name: "to a VM that is being deleted",
      plan: add({
        kind: "vm",
        vm: { ...aVm(), metadata: { ...aVm().metadata, deletionTimestamp: "x" } },
      }),
      want: [409],
    },
    {
      name: "a network that is not there",
      plan: add({ kind: "vm", vm: aVm() }, {}, false),
      want: [422, "FieldValueNotFound networkAttachmentDefinitionName"],
    },
    {
      name: "many things at once",
      plan: add(
        { kind: "vm", vm: aVm() },
        {
          name: "a.b",
          networkAttachmentDefinitionName: "A/b/c",
          fields: { model: "x", macAddress: "zz", state: "absent" },
        },
        false,
      ),
      want: [
        422,
        "FieldValueInvalid state",
        "FieldValueNotFound networkAttachmentDefinitionName",
        "FieldValueInvalid networkAttachmentDefinitionName",
        "FieldValueInvalid name",
        "FieldValueNotSupported model",
        "FieldValueInvalid macAddress",
      ],
    },
    {
      name: "another network under a name in use",
      plan: add({ kind: "vm", vm: aVm(WITH_BLUE) }, { networkAttachmentDefinitionName: "red" }),
      want: [409, "FieldValueDuplicate name"],
    },
    {
      name: "another MAC under a name in use",
      plan: add(
        { kind: "vm", vm: aVm(WITH_BLUE) },
        { fields: { macAddress: "02:00:00:00:00:09" } },
      ),
      want: [409, "FieldValueDuplicate name"],
    },
    {
      name: "the name of the pod network's interface",
      plan: add({ kind: "vm", vm: aVm() }, { name: "default" }),
      want: [409, "FieldValueDuplicate name"],
    },
    {
      name: "another network under a name that is leaving the guest",
      plan: add(
        { kind: "vm", vm: aVm(), vmi: aVmi(WITH_ABSENT) },
        { networkAttachmentDefinitionName: "red" },
      ),
      want: [409, "FieldValueDuplicate name"],
    },
  ])("refuses $name", ({ plan, want }) => {
    expect(refusalOf(plan)).toEqual(want);
  });

  test("refuses in the terms of the request", () => {
    const plan = add({ kind: "vm", vm: aVm() }, { fields: { macAddress: "zz" } });
    expect(plan).toMatchObject({
      refusal: { message: "interface 'blue' has malformed MAC address (zz)." },
    });
  });
});

describe("removing", () => {
  test("from a running VM marks the entry", () => {
    const plan = remove({ kind: "vm", vm: aVm(WITH_BLUE), vmi: aVmi(WITH_BLUE) });
    expect(plan).toMatchObject({ kind: "patch", effect: "live" });
    expect(writtenNics(plan)).toEqual([
      WITH_ABSENT.networks,
      [POD_IFACE, { ...BLUE, state: "absent" }],
    ]);
  });

  test("from a stopped VM takes both entries away", () => {
    const plan = remove({ kind: "vm", vm: aVm(WITH_BLUE) });
    expect(plan).toMatchObject({ kind: "patch", effect: "start" });
    expect(writtenNics(plan)).toEqual([[POD_NETWORK], [POD_IFACE]]);
  });

  test.each<{ name: string; target: NicTarget }>([
    {
      name: "what is marked already",
      target: { kind: "vm", vm: aVm(WITH_ABSENT), vmi: aVmi(WITH_BLUE) },
    },
    {
      name: "what was deleted from the VM and has not left the guest",
      target: { kind: "vm", vm: aVm(), vmi: aVmi(WITH_ABSENT) },
    },
  ])("of $name changes nothing", ({ target }) => {
    expect(remove(target).kind).toBe("unchanged");
  });

  test.each<{ name: string; plan: NicPlan; want: readonly unknown[] }>([
    {
      name: "an unknown interface",
      plan: remove({ kind: "vm", vm: aVm(), vmi: aVmi() }, "green"),
      want: [422, "FieldValueNotFound name"],
    },
    {
      name: "the pod network's interface",
      plan: remove({ kind: "vm", vm: aVm(), vmi: aVmi() }, "default"),
      want: [422, "FieldValueInvalid name"],
    },
    {
      name: "an SR-IOV interface",
      plan: remove({
        kind: "vmi",
        vmi: aVmi({
          networks: [POD_NETWORK, BLUE_NETWORK],
          ifaces: [POD_IFACE, { name: "blue", sriov: {} }],
        }),
      }),
      want: [422, "FieldValueInvalid name"],
    },
    {
      name: "from a VMI that does not run",
      plan: remove({ kind: "vmi", vmi: aVmi(WITH_BLUE, { phase: "Succeeded" }) }),
      want: [409],
    },
  ])("refuses $name", ({ plan, want }) => {
    expect(refusalOf(plan)).toEqual(want);
  });
});
