// SPDX-License-Identifier: Apache-2.0
// Adding an iface: what happens to VMs and VMIs.
import type { VirtualMachine } from "@patchbay/api";
import { describe, expect, test } from "vitest";
import {
  POD_NETWORK,
  POD_IFACE,
  BLUE_NETWORK,
  BLUE,
  aVm,
  aVmi,
  WITH_BLUE,
  WITH_ABSENT,
  add,
  writtenNics,
  refusalOf,
} from "../testing/nic-requests.ts";
import { planAddIface, type AddIfaceRequest, type NicTarget } from "./ifaces.ts";
import type { NicPlan } from "./refusal.ts";

describe("adding an interface", () => {
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

  test("to a stopped VM takes effect at its next start", () => {
    expect(add({ kind: "vm", vm: aVm() })).toMatchObject({ kind: "patch", effect: "start" });
  });

  test("to a VM without lists tests its version instead", () => {
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

  test("passes optional fields on", () => {
    const fields = { model: "e1000e", macAddress: "02:00:00:00:00:09", state: "down" };
    expect(writtenNics(add({ kind: "vm", vm: aVm() }, { fields }))).toMatchObject([
      {},
      [POD_IFACE, { name: "blue", bridge: {}, ...fields }],
    ]);
  });

  test.each([
    {
      named: "bleu",
      nearestNetwork: "blue",
      says: 'NetworkAttachmentDefinition "bleu" not found in namespace ns; the nearest name there is "blue"',
    },
    {
      named: "nets/red",
      nearestNetwork: undefined,
      says: 'NetworkAttachmentDefinition "red" not found in namespace nets',
    },
  ])(
    "reports a missing network $named with its namespace",
    ({ named, nearestNetwork, says: message }) => {
      const request = { name: "nic1", networkAttachmentDefinitionName: named, fields: {} };
      const target: NicTarget = { kind: "vm", vm: aVm() };
      const facts = { target, request, nadExists: false, nearestNetwork, bindings: {} };
      expect(planAddIface(facts)).toMatchObject({
        refusal: { causes: [{ reason: "FieldValueNotFound", message }] },
      });
    },
  );

  test("repeating a request changes nothing, even if the definition was deleted", () => {
    const target: NicTarget = { kind: "vm", vm: aVm(WITH_BLUE) };
    const full = { networkAttachmentDefinitionName: "ns/blue-nad" };
    expect(add(target, {}, false).kind).toBe("unchanged");
    expect(add(target, full).kind).toBe("unchanged");
    expect(add(target, { fields: { macAddress: "02-00-00-00-00-01" } }).kind).toBe("unchanged");
  });

  test("cancels an unplug", () => {
    expect(writtenNics(add({ kind: "vm", vm: aVm(WITH_ABSENT), vmi: aVmi() }))).toEqual([
      [POD_NETWORK, BLUE_NETWORK],
      [POD_IFACE, BLUE],
    ]);
  });

  test("retains the MAC of an entry that was deleted from the VM but is still plugged", () => {
    const plan = add({ kind: "vm", vm: aVm(), vmi: aVmi(WITH_ABSENT) });
    expect(writtenNics(plan)).toMatchObject([{}, [{}, { macAddress: BLUE.macAddress }]]);
  });

  test.each([
    { name: "the guest's MAC", vmi: aVmi(WITH_ABSENT), fields: {}, want: BLUE.macAddress },
    {
      name: "the request's MAC",
      vmi: aVmi(WITH_ABSENT),
      fields: { macAddress: "02:00:00:00:00:08" },
      want: "02:00:00:00:00:08",
    },
    { name: "no MAC", vmi: aVmi(), fields: {}, want: undefined },
  ])("sets $name as MAC", ({ vmi, fields, want }) => {
    const plan = planAddIface({
      target: { kind: "vm", vm: aVm(), vmi },
      request: { name: "blue", networkAttachmentDefinitionName: "blue-nad", fields },
      nadExists: true,
      bindings: {},
    });
    const mac = want === undefined ? {} : { macAddress: want };
    const iface = { name: "blue", bridge: {}, ...mac };
    expect(writtenNics(plan)).toEqual([
      [POD_NETWORK, BLUE_NETWORK],
      [POD_IFACE, iface],
    ]);
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
      name: "rejected by a running VM with ports",
      machine: "q35",
      status: PORTS,
      want: "refused",
    },
    { name: "accepted by a VM with slots", machine: "pc", status: PORTS, want: "patch" },
    {
      name: "accepted before the start",
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

  test.each<{ name: string; plan: () => NicPlan; want: readonly unknown[] }>([
    {
      name: "a VMI that is not running",
      plan: () => add({ kind: "vmi", vmi: aVmi({}, { phase: "Scheduled" }) }),
      want: [409],
    },
    {
      name: "a VM that is being deleted",
      plan: () =>
        add({
          kind: "vm",
          vm: { ...aVm(), metadata: { ...aVm().metadata, deletionTimestamp: "x" } },
        }),
      want: [409],
    },
    {
      name: "a missing network",
      plan: () => add({ kind: "vm", vm: aVm() }, {}, false),
      want: [422, "FieldValueNotFound networkAttachmentDefinitionName"],
    },
    {
      name: "several errors at once",
      plan: () =>
        add(
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
      plan: () =>
        add({ kind: "vm", vm: aVm(WITH_BLUE) }, { networkAttachmentDefinitionName: "red" }),
      want: [409, "FieldValueDuplicate name"],
    },
    {
      name: "another MAC under a name in use",
      plan: () =>
        add({ kind: "vm", vm: aVm(WITH_BLUE) }, { fields: { macAddress: "02:00:00:00:00:09" } }),
      want: [409, "FieldValueDuplicate name"],
    },
    {
      name: "the name of the pod network's interface",
      plan: () => add({ kind: "vm", vm: aVm() }, { name: "default" }),
      want: [409, "FieldValueDuplicate name"],
    },
    {
      name: "a different network under a name that is being unplugged",
      plan: () =>
        add(
          { kind: "vm", vm: aVm(), vmi: aVmi(WITH_ABSENT) },
          { networkAttachmentDefinitionName: "red" },
        ),
      want: [409, "FieldValueDuplicate name"],
    },
  ])("rejects $name", ({ plan, want }) => {
    expect(refusalOf(plan())).toEqual(want);
  });

  test("is rejected with the request's field names", () => {
    const plan = add({ kind: "vm", vm: aVm() }, { fields: { macAddress: "zz" } });
    expect(plan).toMatchObject({
      refusal: { message: "interface 'blue' has malformed MAC address (zz)." },
    });
  });

  test("reports several causes, each with its field", () => {
    const plan = add({ kind: "vm", vm: aVm() }, { fields: { macAddress: "zz", model: "x" } });
    expect(plan).toMatchObject({
      refusal: {
        code: 422,
        reason: "Invalid",
        message: expect.stringMatching(/^model: .*; macAddress: .*$/) as string,
      },
    });
  });

  test.each<{ name: string; target: NicTarget; request: Partial<AddIfaceRequest>; says: string }>([
    {
      name: "no port is free",
      target: {
        kind: "vm",
        vm: aVm(),
        vmi: aVmi({}, { ...PORTS, pciePorts: { total: 8, free: 0 } }),
      },
      request: RED,
      says: "no free PCIe port: 0 of 8 PCIe ports of the VM are free; unplug an interface, or restart the VM with more spec.domain.devices.pcieRootPorts, or with more vCPUs where the guest's interrupt vectors are used up",
    },
    {
      name: "the last port is reserved",
      target: { kind: "vm", vm: aVm(WITH_BLUE), vmi: aVmi(WITH_BLUE, PORTS) },
      request: RED,
      says: "no free PCIe port: 1 of 8 PCIe ports of the VM are free; unplug an interface, or restart the VM with more spec.domain.devices.pcieRootPorts, or with more vCPUs where the guest's interrupt vectors are used up, 1 promised to interfaces that are being plugged",
    },
    {
      name: "the name is in use",
      target: { kind: "vm", vm: aVm(WITH_BLUE) },
      request: { networkAttachmentDefinitionName: "red" },
      says: "interface 'blue' is on network blue-nad; to swap its network, change it in the specification, or with patchbay set interface",
    },
    {
      name: "the name belongs to an iface that is being unplugged",
      target: { kind: "vm", vm: aVm(WITH_ABSENT), vmi: aVmi() },
      request: { networkAttachmentDefinitionName: "red" },
      says: "interface 'blue' is being unplugged from network blue-nad",
    },
    {
      name: "the name is the pod network's",
      target: { kind: "vm", vm: aVm() },
      request: { name: "default" },
      says: "interface 'default' is on network of the pod",
    },
    {
      name: "fields differ",
      target: { kind: "vm", vm: aVm(WITH_BLUE) },
      request: { fields: { macAddress: "02:00:00:00:00:09", model: "e1000", state: "down" } },
      says: "interface 'blue' already exists with another macAddress, model, state",
    },
    {
      name: "fields other than the state differ from an iface that is being unplugged",
      target: { kind: "vm", vm: aVm(WITH_ABSENT), vmi: aVmi() },
      request: { fields: { model: "e1000", state: "down" } },
      says: "interface 'blue' already exists with another model",
    },
  ])("reports the reason of a conflict: $name", ({ target, request, says: message }) => {
    expect(add(target, request)).toMatchObject({ refusal: { code: 409, message } });
  });

  test("accepts an I/O port model that reuses the address of a NIC that is being unplugged", () => {
    const vmi = aVmi(WITH_ABSENT, { ...PORTS, pciePorts: { total: 8, free: 0 } });
    expect(add({ kind: "vm", vm: aVm(), vmi }).kind).toBe("patch");
  });

  test("cancels an unplug with the requested link state", () => {
    const target: NicTarget = { kind: "vm", vm: aVm(WITH_ABSENT), vmi: aVmi() };
    expect(writtenNics(add(target, { fields: { state: "down" } }))).toEqual([
      [POD_NETWORK, BLUE_NETWORK],
      [POD_IFACE, { ...BLUE, state: "down" }],
    ]);
  });

  test.each([
    { name: "has ended", status: { phase: "Failed" } as const, deletionTimestamp: undefined },
    { name: "is ending", status: { phase: "Running" } as const, deletionTimestamp: "x" },
  ])("to a VM whose VMI $name takes effect at its next start", ({ status, deletionTimestamp }) => {
    const { metadata, ...rest } = aVmi({}, status);
    const deleted = deletionTimestamp === undefined ? {} : { deletionTimestamp };
    const vmi = { ...rest, metadata: { ...metadata, ...deleted } };
    expect(add({ kind: "vm", vm: aVm(), vmi })).toEqual({
      kind: "patch",
      effect: "start",
      message: "interface 'blue' will be plugged when the VM starts",
      operations: expect.anything() as unknown,
    });
  });

  test("to a deleted VMI or a VMI without status is a conflict", () => {
    const { metadata, ...rest } = aVmi();
    const ending = { ...rest, metadata: { ...metadata, deletionTimestamp: "x" } };
    const unseen = { apiVersion: rest.apiVersion, kind: rest.kind, metadata, spec: rest.spec };
    for (const vmi of [ending, unseen]) {
      expect(add({ kind: "vmi", vmi })).toMatchObject({
        refusal: { code: 409, reason: "Conflict", message: "VMI is not running", causes: [] },
      });
    }
  });
});
