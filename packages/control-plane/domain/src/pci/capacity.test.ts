// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { parseDomain, type DomainFacts } from "../xml/parse.ts";
import { printPciAddress } from "./addresses.ts";
import { countPorts, freeAddresses, spareVectors } from "./capacity.ts";

function aDomain(machine: string, devices: readonly string[], vcpus = 1): DomainFacts {
  const type = `<type arch="x86_64" machine="${machine}">hvm</type>`;
  const xml = `<domain><vcpu placement="static">${String(vcpus)}</vcpu><os>${type}</os><devices>${devices.join("")}</devices></domain>`;
  const parsed = parseDomain(xml);
  if (!parsed.ok) throw new Error(parsed.reason);
  return parsed.domain;
}

function address(bus: number, slot = 0, fn = 0): string {
  return `<address type="pci" bus="0x${bus.toString(16)}" slot="0x${slot.toString(16)}" function="0x${String(fn)}"/>`;
}

function controller(index: number, model: string, inside = ""): string {
  return `<controller type="pci" index="${String(index)}" model="${model}">${inside}</controller>`;
}

function ports(count: number): readonly string[] {
  return Array.from({ length: count }, (_unused, position) =>
    controller(
      position + 1,
      "pcie-root-port",
      address(0, 2 + Math.floor(position / 8), position % 8),
    ),
  );
}

function nic(bus: number, slot = 0, queues = 1): string {
  return `<interface type="ethernet"><model type="virtio-non-transitional"/><driver queues="${String(queues)}"/>${address(bus, slot)}</interface>`;
}

/** Of a model that is not known, with one vector. */
const NOWHERE = '<interface type="ethernet"><mac address="02:00:00:00:00:01"/></interface>';
const PC = [controller(0, "pci-root")];
const Q35 = [controller(0, "pcie-root")];
const PORT_3 = controller(3, "pcie-root-port", address(0, 2, 1));

describe("the capacity of a domain", () => {
  test.each([
    { name: "q35 without ports", machine: "q35", devices: Q35, total: 0, free: 0 },
    { name: "q35 with 4 ports", machine: "q35", devices: [...Q35, ...ports(4)], total: 4, free: 4 },
    {
      name: "q35 with a NIC, an unreported rng device and a NIC on the root complex",
      machine: "q35",
      devices: [...Q35, ...ports(8), nic(1), `<rng>${address(3)}</rng>`, nic(0, 0x1c)],
      total: 8,
      free: 6,
    },
    {
      name: "q35 with a port without hotplug",
      machine: "q35",
      devices: [
        ...Q35,
        controller(1, "pcie-root-port", `<target hotplug="off"/>`),
        ...ports(2).slice(1),
      ],
      total: 1,
      free: 1,
    },
    {
      name: "q35 with a bridge behind a port and a device behind the bridge",
      machine: "q35",
      devices: [...Q35, ...ports(2), controller(3, "pcie-to-pci-bridge", address(2)), nic(3, 5)],
      total: 33,
      free: 31,
    },
    {
      name: "q35 with a switch behind a port",
      machine: "q35",
      devices: [
        ...Q35,
        ...ports(2),
        controller(3, "pcie-switch-upstream-port", address(1)),
        controller(4, "pcie-switch-downstream-port", address(3, 0)),
        controller(5, "pcie-switch-downstream-port", address(3, 1)),
      ],
      total: 4,
      free: 3,
    },
    { name: "pc", machine: "pc", devices: PC, total: 30, free: 30 },
    {
      name: "pc with a display, a NIC and a multifunction device",
      machine: "pc",
      devices: [
        ...PC,
        `<video>${address(0, 2)}</video>`,
        nic(0, 3),
        `<sound>${address(0, 4, 0)}</sound><sound>${address(0, 4, 1)}</sound>`,
      ],
      total: 30,
      free: 27,
    },
    {
      name: "pc with a bridge",
      machine: "pc",
      devices: [...PC, controller(1, "pci-bridge", address(0, 2))],
      total: 61,
      free: 60,
    },
    {
      name: "q35 whose guest has too few interrupt vectors",
      machine: "q35",
      devices: [...Q35, ...ports(128), nic(1)],
      total: 128,
      free: 21,
    },
  ])("$name: $free of $total", ({ machine, devices, total, free }) => {
    expect(countPorts(aDomain(machine, devices))).toEqual({ total, free });
  });

  test("grows with the vCPUs and shrinks with the queues", () => {
    const one = spareVectors(aDomain("q35", [...Q35, ...ports(32), nic(1)]));
    const eightQueues = spareVectors(aDomain("q35", [...Q35, ...ports(32), nic(1, 0, 8)]));
    const twoCpus = spareVectors(aDomain("q35", [...Q35, ...ports(32), nic(1)], 2));
    expect([one, eightQueues, twoCpus]).toEqual([161, 147, 357]);
  });

  test.each([
    { name: "a NIC behind a port", devices: [nic(1)], spare: 191 },
    { name: "a NIC on the root complex", devices: [nic(0, 0x1c)], spare: 191 },
    { name: "a NIC with an unknown PCI address", devices: ["<interface/>", NOWHERE], spare: 193 },
    { name: "a device behind a port", devices: [`<rng>${address(1)}</rng>`], spare: 192 },
    { name: "a device beside the ports", devices: [`<rng>${address(0, 0x1d)}</rng>`], spare: 194 },
  ])("$name leaves $spare interrupt vectors with two ports", ({ devices, spare }) => {
    expect(spareVectors(aDomain("q35", [...Q35, ...ports(2), ...devices]))).toBe(spare);
  });
});

describe("a free address", () => {
  test.each([
    {
      name: "is the lowest free port",
      devices: [...Q35, ...ports(3), nic(1)],
      model: "virtio",
      first: "0000:02:00.0",
    },
    {
      name: "is a slot of a bridge when all ports are in use",
      devices: [...Q35, ...ports(1), controller(2, "pcie-to-pci-bridge", address(1))],
      model: "virtio",
      first: "0000:02:01.0",
    },
    {
      name: "is a port while a port is free, regardless of the bridge's number",
      devices: [...Q35, ...ports(1), controller(2, "pcie-to-pci-bridge", address(1)), PORT_3],
      model: "virtio",
      first: "0000:03:00.0",
    },
    {
      name: "does not exist for a model that needs I/O ports",
      devices: [...Q35, ...ports(3)],
      model: "pcnet",
      first: undefined,
    },
    {
      name: "is the same for an unknown model",
      devices: [...Q35, ...ports(3)],
      model: "a model of tomorrow",
      first: "0000:01:00.0",
    },
    {
      name: "exists on pc for a model that needs I/O ports",
      machine: "pc",
      devices: PC,
      model: "pcnet",
      first: "0000:00:02.0",
    },
  ])("$name", ({ machine = "q35", devices, model, first }) => {
    expect(freeAddresses(aDomain(machine, devices), model).map(printPciAddress)[0]).toBe(first);
  });
});
