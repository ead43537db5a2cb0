// SPDX-License-Identifier: Apache-2.0
// Which ifaces of a running VM is there no port for, and what are people told?
import { names, type VirtualMachineInstance, type VmiStatus } from "@patchbay/api";
import { aVmi } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import { noFreePortMessage } from "../../reasons/messages.ts";
import { reservePorts, findIfacesWithoutPort, findIoPortProblem } from "./ports.ts";

function portless(vmi: VirtualMachineInstance): readonly string[] {
  return [...findIfacesWithoutPort(vmi, vmi.spec, {})].map(
    ([name, { reason }]) => `${name} ${reason}`,
  );
}

function running(free: number, status: VmiStatus = {}): VirtualMachineInstance {
  return aVmi({
    nics: [{ name: "a" }, { name: "b" }, { name: "c" }],
    status: { phase: "Running", pciePorts: { total: 4, free }, ...status },
  });
}

describe("an iface has no port", () => {
  test.each([
    {
      name: "when all ports are in use",
      free: 0,
      status: {},
      want: ["a NoFreePciePort", "b NoFreePciePort", "c NoFreePciePort"],
    },
    {
      name: "when earlier ifaces use the last ports",
      free: 2,
      status: {},
      want: ["c NoFreePciePort"],
    },
    { name: "not when each iface has a port", free: 3, status: {}, want: [] },
    {
      name: "not when it has a device",
      free: 1,
      status: { interfaces: [{ name: "a", pciAddress: "0000:01:00.0" }] },
      want: ["c NoFreePciePort"],
    },
    {
      name: "not before its attachment in the pod is ready",
      free: 1,
      status: {
        attachments: [{ name: "c", podInterfaceName: "pod1", state: "Attached" as const }],
      },
      want: ["a NoFreePciePort", "b NoFreePciePort"],
    },
  ])("$name", ({ free, status, want }) => {
    expect(portless(running(free, status))).toEqual(want);
  });

  test("not while the VM is not running, because ports for all are laid out at the start", () => {
    expect(portless(aVmi({ nics: [{ name: "a" }], status: { phase: "Scheduled" } }))).toEqual([]);
  });

  test.each([
    { machine: "q35", want: ["b ModelNeedsIoPorts"] },
    { machine: "pc", want: ["c NoFreePciePort"] },
  ])("for its model; it then takes none from other ifaces: $machine", ({ machine, want }) => {
    const vmi = running(2);
    const interfaces = vmi.spec.domain.devices?.interfaces?.map((iface) =>
      iface.name === "b" ? { ...iface, model: "pcnet" } : iface,
    );
    const devices = { ...vmi.spec.domain.devices, interfaces: interfaces ?? [] };
    const domain = { ...vmi.spec.domain, machine: { type: machine }, devices };
    expect(portless({ ...vmi, spec: { ...vmi.spec, domain } })).toEqual(want);
  });
});

describe("the reservation of ports", () => {
  test("prefers ifaces that already have a pod attachment", () => {
    const attachments = [{ name: "c", podInterfaceName: "pod1", state: "Requested" as const }];
    const vmi = running(3, { attachments });
    expect(reservePorts(vmi, vmi.spec, {})).toEqual({
      total: 4,
      free: 3,
      reserved: ["c", "a", "b"],
    });
  });

  test("excludes ifaces without a device behind a port", () => {
    const vmi = aVmi({ status: { phase: "Running", pciePorts: { total: 4, free: 3 } } });
    const interfaces = [
      { name: "default", bridge: {} },
      { name: "gone", state: "absent" },
      { name: "unbuilt", sriov: {} },
      { name: "legacy", model: "pcnet" },
      { name: "a", bridge: {} },
    ];
    const networks = [
      { name: "default", pod: {} },
      ...["gone", "unbuilt", "legacy", "a"].map((name) => ({
        name,
        multus: { networkName: "blue" },
      })),
    ];
    const domain = { ...vmi.spec.domain, devices: { interfaces } };
    const spec = { ...vmi.spec, domain, networks };
    expect(reservePorts({ ...vmi, spec }, spec, {})?.reserved).toEqual(["a"]);
  });

  test("is unset while the VM is not running", () => {
    const vmi = aVmi({ nics: [{ name: "a" }] });
    expect(reservePorts(vmi, vmi.spec, {})).toBeUndefined();
  });
});

describe("a model needs I/O ports", () => {
  const onPc = (vmi: VirtualMachineInstance): VirtualMachineInstance => {
    const domain = { ...vmi.spec.domain, machine: { type: "pc" } };
    return { ...vmi, spec: { ...vmi.spec, domain } };
  };
  const TEXT =
    "model pcnet needs I/O ports, which hot-plug ports do not have; use virtio, or add the interface while the VM is stopped";

  test.each([
    { name: "that a running q35 lacks", vmi: running(4), model: "pcnet", want: TEXT },
    { name: "that a pc machine has", vmi: onPc(running(4)), model: "pcnet", want: undefined },
    {
      name: "which does not matter before the start",
      vmi: aVmi(),
      model: "pcnet",
      want: undefined,
    },
    { name: "which e1000 does not need", vmi: running(4), model: "e1000", want: undefined },
    {
      name: "which an unknown model does not need",
      vmi: running(4),
      model: "odd",
      want: undefined,
    },
  ])("$name", ({ vmi, model, want }) => {
    expect(findIoPortProblem(vmi, { name: "a", model })?.message).toBe(want);
  });

  test("unless no iface is given", () => {
    expect(findIoPortProblem(running(4), undefined)).toBeUndefined();
  });
});

describe("the report to users", () => {
  test("contains the reason for each waiting iface", () => {
    const vmi = running(0);
    const spec = { ...vmi.spec };
    const { message } = noFreePortMessage(vmi);
    expect([...findIfacesWithoutPort(vmi, spec, {}).values()]).toEqual(
      ["a", "b", "c"].map(() => ({ reason: "NoFreePciePort", message })),
    );
  });

  test("contains 0 ports if they were not counted", () => {
    expect(noFreePortMessage(aVmi()).message).toContain("0 of 0 PCIe ports of the VM are free");
  });

  test("contains both numbers and the setting", () => {
    expect(noFreePortMessage(running(0)).message).toBe(
      "0 of 4 PCIe ports of the VM are free; unplug an interface, or restart the VM with more spec.domain.devices.pcieRootPorts, or with more vCPUs where the guest's interrupt vectors are used up",
    );
  });

  test("omits a setting that the machine does not have", () => {
    const vmi = running(0);
    const domain = { ...vmi.spec.domain, machine: { type: "pc" } };
    const message = noFreePortMessage({ ...vmi, spec: { ...vmi.spec, domain } }).message;
    expect(message).toContain("has no more slots");
    expect(message).not.toContain("pcieRootPorts");
  });

  test("explains that nothing can be plugged on the root complex", () => {
    const vmi = running(0);
    const annotations = { [names.ROOT_COMPLEX_ANNOTATION]: "true" };
    const onRoot = { ...vmi, metadata: { ...vmi.metadata, annotations } };
    expect(noFreePortMessage(onRoot).message).toContain("kubevirt.io/placePCIDevicesOnRootComplex");
  });
});
