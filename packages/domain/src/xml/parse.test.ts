// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import type { DomainDefinition, NicDefinition } from "../definition.ts";
import { machineFamilyOf } from "../machine.ts";
import { printPciAddress } from "../pci/address.ts";
import { countPorts, freeAddresses } from "../pci/capacity.ts";
import { planTopology } from "../pci/topology.ts";
import { parseDomain, type DomainFacts } from "./parse.ts";
import { printDomain } from "./print.ts";

function aDomain(
  machine: string,
  nics: number,
  change: Partial<NicDefinition> = {},
): DomainDefinition {
  const names = Array.from({ length: nics }, (_unused, position) => `net${String(position)}`);
  const plan = planTopology({
    family: machineFamilyOf(machine) ?? "q35",
    vcpus: 1,
    reserve: 8,
    nics: names.map((name) => ({ name, model: "virtio", queues: 1 })),
    onRootComplex: false,
  });
  if (!plan.ok) throw new Error("no layout");
  const { ports, addresses } = plan.topology;
  return {
    name: "default_vm1",
    uuid: "6f1c1a52-7f0c-4c0e-8d36-0a2b1d5b7c11",
    accelerator: "qemu",
    machine,
    vcpus: 1,
    memoryMiB: 128,
    sharesMemory: true,
    kernel: { path: "/run/kernel-boot/vmlinuz", args: "console=ttyS0 a=<b>&c" },
    nics: names.map((name, position) => ({
      alias: `ua-${name}`,
      mac: `02:00:00:00:00:0${String(position)}`,
      model: "virtio",
      queues: 1,
      tapName: `tap${String(position)}`,
      mtu: 1500,
      linkUp: position !== 1,
      pciAddress: addresses.get(name) ?? { bus: 0, slot: 0, function: 0 },
      ...change,
    })),
    ports,
    console: { socketPath: "/run/launcher/serial0.sock", logPath: "/run/launcher/serial0.log" },
  };
}

function parsed(xml: string): DomainFacts {
  const result = parseDomain(xml);
  if (!result.ok) throw new Error(result.reason);
  return result.domain;
}

describe("a domain that was printed", () => {
  test.each([
    { machine: "q35", nics: 0, total: 8, first: "0000:01:00.0" },
    { machine: "q35", nics: 1, total: 9, first: "0000:02:00.0" },
    { machine: "q35", nics: 3, total: 11, first: "0000:04:00.0" },
    { machine: "pc", nics: 0, total: 30, first: "0000:00:02.0" },
    { machine: "pc", nics: 2, total: 30, first: "0000:00:04.0" },
  ])("$machine with $nics NICs has $total ports, the first free at $first", (row) => {
    const facts = parsed(printDomain(aDomain(row.machine, row.nics)));
    expect(countPorts(facts)).toEqual({ total: row.total, free: row.total - row.nics });
    expect(freeAddresses(facts).map(printPciAddress)[0]).toBe(row.first);
    expect(facts.nics.map(({ alias }) => alias)).toEqual(
      Array.from({ length: row.nics }, (_unused, position) => `ua-net${String(position)}`),
    );
  });

  test("keeps the link state, the tap and the address of a NIC", () => {
    expect(parsed(printDomain(aDomain("q35", 2))).nics[1]).toEqual({
      alias: "ua-net1",
      mac: "02:00:00:00:00:01",
      tapName: "tap1",
      pciAddress: { bus: 2, slot: 0, function: 0 },
      linkUp: false,
      model: "virtio-non-transitional",
      queues: 1,
    });
  });

  test("says how many vCPUs it has and whether its memory is shared", () => {
    const { vcpus, sharesMemory } = parsed(printDomain(aDomain("q35", 0)));
    expect({ vcpus, sharesMemory }).toEqual({ vcpus: 1, sharesMemory: true });
  });

  test.each(["q35-2-nics", "pc-1-nic", "q35-multi-queue"])(
    "is the golden file %s.xml",
    async (name) => {
      const given: Readonly<Record<string, DomainDefinition>> = {
        "q35-2-nics": aDomain("q35", 2),
        "pc-1-nic": aDomain("pc", 1),
        "q35-multi-queue": aDomain("q35", 1, { queues: 4, bootOrder: 1, acpiIndex: 7 }),
      };
      const xml = printDomain(given[name] ?? aDomain("q35", 0));
      await expect(xml).toMatchFileSnapshot(`__golden__/${name}.xml`);
    },
  );

  test("escapes the kernel's arguments", () => {
    expect(printDomain(aDomain("q35", 0))).toContain("a=&lt;b&gt;&amp;c");
  });
});

describe("hostile XML is refused", () => {
  test.each([
    {
      name: "a DOCTYPE",
      xml: '<!DOCTYPE d [<!ENTITY a "b">]><domain/>',
      reason: "it has a DOCTYPE",
    },
    {
      name: "too much",
      xml: `<domain>${" ".repeat(1_000_001)}</domain>`,
      reason: "it is too long",
    },
    { name: "another root", xml: "<network/>", reason: "it has no domain element" },
  ])("$name", ({ xml, reason }) => {
    expect(parseDomain(xml)).toEqual({ ok: false, reason });
  });

  test("unbalanced elements", () => {
    expect(parseDomain("<domain><a></domain>").ok).toBe(false);
  });
});
