// SPDX-License-Identifier: Apache-2.0
// Which places in a running domain do new NICs get, and why do some get none?
import { names, networkConfigOf, type Iface, type VirtualMachineInstance } from "@patchbay/api";
import { printPcieTopology } from "@patchbay/api/annotations";
import { parsePciAddress, printPciAddress, type DomainFacts } from "@patchbay/domain";
import { aVmi } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import { NO_LINKS, type IfaceFacts } from "../facts.ts";
import { planLivePlacements } from "./ports.ts";

function aDomain(ports: number, used: readonly string[], vcpus = 1): DomainFacts {
  const controllers = Array.from({ length: ports }, (_unused, position) => ({
    index: position + 1,
    model: "pcie-root-port",
    hotplug: true,
  }));
  const pciAddresses = used.flatMap((text) => parsePciAddress(text) ?? []);
  return {
    family: "q35",
    nics: [],
    controllers,
    pciAddresses,
    devices: [],
    vcpus,
    sharesMemory: true,
    agentConnected: false,
    paths: [],
  };
}

function aFact(name: string, iface: Partial<Iface> = {}): IfaceFacts {
  return {
    name,
    iface: { name, ...iface },
    binding: { kind: "bridge" },
    podInterfaceName: `pod${name}`,
    links: NO_LINKS,
  };
}

function aVmiWith(retained: Readonly<Record<string, string>>): VirtualMachineInstance {
  const interfaces = Object.entries(retained).map(([name, pciAddress]) => ({ name, pciAddress }));
  const annotation = printPcieTopology({ version: 1, interfaces });
  const vmi = aVmi();
  const annotations = { [names.PCIE_TOPOLOGY_ANNOTATION]: annotation };
  return { ...vmi, metadata: { ...vmi.metadata, annotations } };
}

function placesOf(
  domain: DomainFacts,
  newcomers: readonly IfaceFacts[],
  more: {
    readonly kept?: Readonly<Record<string, string>>;
    readonly others?: readonly IfaceFacts[];
  } = {},
): Readonly<Record<string, string>> {
  const ifaces = [...newcomers, ...(more.others ?? [])];
  const facts = { vmi: aVmiWith(more.kept ?? {}), network: networkConfigOf(undefined), ifaces };
  const places = [...planLivePlacements(facts, domain, newcomers)].map(
    ([name, place]) =>
      [name, typeof place === "string" ? place : printPciAddress(place.pciAddress)] as const,
  );
  return Object.fromEntries(places);
}

describe("the address of a new NIC", () => {
  test("is the lowest free port, in the order of the ifaces", () => {
    const domain = aDomain(4, ["0000:02:00.0"]);
    expect(placesOf(domain, [aFact("a"), aFact("b")])).toEqual({
      a: "0000:01:00.0",
      b: "0000:03:00.0",
    });
  });

  test("is its previous port", () => {
    const retained = { a: "0000:03:00.0" };
    expect(placesOf(aDomain(4, []), [aFact("a")], { kept: retained })).toEqual(retained);
  });

  test("is another port if the previous one is in use", () => {
    const retained = { a: "0000:03:00.0" };
    expect(placesOf(aDomain(4, ["0000:03:00.0"]), [aFact("a")], { kept: retained })).toEqual({
      a: "0000:01:00.0",
    });
  });

  test("is not a port that is recorded for a NIC that is not plugged yet", () => {
    const more = { kept: { late: "0000:01:00.0" }, others: [aFact("late")] };
    expect(placesOf(aDomain(4, []), [aFact("a")], more)).toEqual({ a: "0000:02:00.0" });
  });

  test("is the requested address even if another was recorded", () => {
    const requested = aFact("a", { pciAddress: "0000:04:00.0" });
    const retained = { a: "0000:03:00.0" };
    expect(placesOf(aDomain(4, []), [requested], { kept: retained })).toEqual({
      a: "0000:04:00.0",
    });
  });

  test("is not a port that another NIC requests", () => {
    const others = [aFact("late", { pciAddress: "0000:01:00.0" })];
    expect(placesOf(aDomain(4, []), [aFact("a")], { others })).toEqual({ a: "0000:02:00.0" });
  });

  test("is the requested address even if it was recorded for another NIC", () => {
    const late = aFact("late");
    const requested = aFact("a", { pciAddress: "0000:01:00.0" });
    const retained = { late: "0000:01:00.0" };
    for (const newcomers of [
      [requested, late],
      [late, requested],
    ]) {
      expect(placesOf(aDomain(4, []), newcomers, { kept: retained })).toEqual({
        a: "0000:01:00.0",
        late: "0000:02:00.0",
      });
    }
  });

  test("may be the recorded port of a NIC whose device is elsewhere now", () => {
    const device = { alias: "ua-there", mac: "", linkUp: true, queues: 1 };
    const more = { kept: { there: "0000:01:00.0" }, others: [{ ...aFact("there"), device }] };
    expect(placesOf(aDomain(4, []), [aFact("a")], more)).toEqual({ a: "0000:01:00.0" });
  });

  test("has the requested number of queues", () => {
    const vmi = aVmi();
    const devices = { ...vmi.spec.domain.devices, networkInterfaceMultiqueue: true };
    const domain = { ...vmi.spec.domain, cpu: { cores: 2 }, devices };
    const facts = {
      vmi: { ...vmi, spec: { ...vmi.spec, domain } },
      network: networkConfigOf(undefined),
      ifaces: [aFact("a")],
    };
    expect([...planLivePlacements(facts, aDomain(1, []), facts.ifaces)]).toEqual([
      ["a", { pciAddress: { bus: 1, slot: 0, function: 0 }, queues: 2 }],
    ]);
  });

  test("is a slot for any model on machine type pc", () => {
    const controllers = [{ index: 0, model: "pci-root", hotplug: true }];
    const domain = { ...aDomain(0, []), family: "pc" as const, controllers };
    expect(placesOf(domain, [aFact("a", { model: "pcnet" })])).toEqual({ a: "0000:00:02.0" });
  });
});

test("assigns nothing without new NICs", () => {
  expect(placesOf(aDomain(4, []), [], { others: [aFact("a")] })).toEqual({});
});

describe("no address is available", () => {
  test.each([
    {
      name: "when no port is free",
      domain: aDomain(1, ["0000:01:00.0"]),
      iface: {},
      want: "NoFreePciePort",
    },
    {
      name: "when no port is free, even for an unknown model",
      domain: aDomain(1, ["0000:01:00.0"]),
      iface: { model: "odd" },
      want: "NoFreePciePort",
    },
    {
      name: "when the guest has no free interrupt vectors",
      domain: aDomain(195, []),
      iface: {},
      want: "NoFreePciePort",
    },
    {
      name: "for a model that needs I/O ports",
      domain: aDomain(4, []),
      iface: { model: "pcnet" },
      want: "ModelNeedsIoPorts",
    },
    {
      name: "when the requested address is in use",
      domain: aDomain(4, ["0000:02:00.0"]),
      iface: { pciAddress: "0000:02:00.0" },
      want: "PciAddressInUse",
    },
  ])("$name", ({ domain, iface, want }) => {
    expect(placesOf(domain, [aFact("a", iface)])).toEqual({ a: want });
  });

  test("for the second of two NICs with one free port", () => {
    expect(placesOf(aDomain(1, []), [aFact("a"), aFact("b")])).toEqual({
      a: "0000:01:00.0",
      b: "NoFreePciePort",
    });
  });

  test("for the second of two NICs that request the same address", () => {
    const requested = ["a", "b"].map((name) => aFact(name, { pciAddress: "0000:03:00.0" }));
    expect(placesOf(aDomain(4, []), requested)).toEqual({
      a: "0000:03:00.0",
      b: "PciAddressInUse",
    });
  });

  test("on machine type pc without free slots, for any model", () => {
    const domain = { ...aDomain(0, []), family: "pc" as const };
    expect(placesOf(domain, [aFact("a", { model: "pcnet" })])).toEqual({ a: "NoFreePciePort" });
  });

  // A vCPU has 196 interrupt vectors; a port takes one, a virtio NIC three, an e1000 one.
  test.each([
    { name: "when two NICs need all vectors, only for a third NIC", ports: 190, spare: 0 },
    { name: "when one vector is missing, already for the second NIC", ports: 191, spare: 2 },
  ])("$name", ({ ports, spare }) => {
    const places = placesOf(aDomain(ports, []), [
      aFact("a"),
      aFact("b"),
      aFact("small", { model: "e1000" }),
    ]);
    expect(places).toEqual({
      a: "0000:01:00.0",
      b: spare === 0 ? "0000:02:00.0" : "NoFreePciePort",
      small: spare === 0 ? "NoFreePciePort" : "0000:02:00.0",
    });
  });
});
