// SPDX-License-Identifier: Apache-2.0
// Where do devices go that are no NICs?
import { describe, expect, test } from "vitest";
import {
  aNic,
  aRequest,
  at,
  printAddresses,
  planned,
  type TopologyRequest,
} from "../testing/topology.ts";
import { printPciAddress, type PciAddress } from "./addresses.ts";
import { planTopology, type Topology } from "./topology.ts";

function printPlaces(places: ReadonlyMap<string, PciAddress>): readonly string[] {
  return [...places].map(([name, place]) => `${name} ${printPciAddress(place)}`);
}

describe("a layout of version 3", () => {
  const DEVICES = [
    { name: "display" },
    { name: "usb" },
    { name: "scsi" },
    { name: "sata:1" },
    { name: "disk:root" },
    { name: "disk:data" },
    { name: "input:tablet" },
    { name: "rng" },
    { name: "watchdog" },
  ] as const satisfies TopologyRequest["devices"];

  function fixedPlaces(topology: Topology): readonly string[] {
    return printPlaces(topology.fixedAddresses);
  }

  test("assigns ports to devices in order, then to NICs; conventional devices get slots from the top", () => {
    const topology = planned(
      aRequest({ version: 3, devices: DEVICES, nics: [aNic("a")], reserve: 2 }),
    );
    expect(fixedPlaces(topology)).toEqual([
      "guestAgent 0000:01:00.0",
      "display 0000:00:01.0",
      "usb 0000:02:00.0",
      "scsi 0000:03:00.0",
      "sata:1 0000:00:1e.0",
      "disk:root 0000:04:00.0",
      "disk:data 0000:05:00.0",
      "input:tablet 0000:06:00.0",
      "rng 0000:07:00.0",
      "watchdog 0000:00:1d.0",
    ]);
    expect(printAddresses(topology)).toEqual({ a: "0000:08:00.0" });
    expect(topology.ports).toHaveLength(10);
  });

  test.each([
    { machine: { family: "pc" }, last: "0000:00:0c.0" },
    { machine: { isOnRootComplex: true }, last: "0000:00:0b.0" },
  ] as const)("assigns slots on $machine", ({ machine, last }) => {
    const nics = [aNic("a")];
    const topology = planned(aRequest({ version: 3, ...machine, devices: DEVICES, nics }));
    expect(printAddresses(topology)).toEqual({ a: last });
    expect(new Set(fixedPlaces(topology).map((place) => place.split(" ")[1])).size).toBe(10);
  });

  test("moves neither NIC nor device when a disk is added before them", () => {
    const root = { name: "disk:root", previous: at("0000:02:00.0") } as const;
    const devices = [{ name: "disk:new" } as const, root];
    const nics = [aNic("b"), aNic("a", { previous: at("0000:03:00.0") })];
    const topology = planned(aRequest({ version: 3, devices, nics }));
    expect(fixedPlaces(topology)).toEqual([
      "disk:root 0000:02:00.0",
      "guestAgent 0000:01:00.0",
      "disk:new 0000:04:00.0",
    ]);
    expect(printAddresses(topology)).toEqual({ a: "0000:03:00.0", b: "0000:05:00.0" });
  });

  test("puts a disk at the requested address", () => {
    const devices = [{ name: "disk:a", requested: at("0000:05:00.0") }] as const;
    const topology = planned(aRequest({ version: 3, devices, reserve: 0 }));
    expect(fixedPlaces(topology)).toContain("disk:a 0000:05:00.0");
    expect(topology.ports).toHaveLength(5);
  });

  test.each([
    { requested: "0000:05:00.1", why: "only function 0 of a slot can be used" },
    {
      requested: "0000:07:01.0",
      why: "its PCI bridge needs 0000:06:00.0, the address of disk first",
    },
    { requested: "0000:06:00.0", why: "is also the address of disk first" },
  ])("rejects a disk at $requested", ({ requested, why }) => {
    const first = { name: "disk:first", requested: at("0000:06:00.0") } as const;
    const devices = [first, { name: "disk:a", requested: at(requested) } as const];
    expect(planTopology(aRequest({ version: 3, devices }))).toEqual({
      ok: false,
      problems: [{ device: "disk:a", message: `${requested}: ${why}` }],
    });
  });

  test("assigns requested addresses before its own devices get theirs", () => {
    const devices = [
      { name: "disk:a" },
      { name: "disk:b", requested: at("0000:02:00.0") },
    ] as const;
    const nics = [
      aNic("a", { requested: at("0000:01:00.0") }),
      aNic("b", { previous: at("0000:03:00.0") }),
    ];
    const topology = planned(aRequest({ version: 3, devices, nics, reserve: 0 }));
    expect(fixedPlaces(topology)).toEqual([
      "disk:b 0000:02:00.0",
      "guestAgent 0000:04:00.0",
      "disk:a 0000:05:00.0",
    ]);
    expect(printAddresses(topology)).toEqual({ a: "0000:01:00.0", b: "0000:03:00.0" });
  });

  test("puts a disk into the conventional slot that it requests", () => {
    const devices = [{ name: "disk:a", requested: at("0000:04:1f.0") }] as const;
    const topology = planned(aRequest({ version: 3, devices, reserve: 1 }));
    expect(fixedPlaces(topology)).toContain("disk:a 0000:04:1f.0");
    expect(topology.bridges).toEqual([{ index: 4, address: at("0000:03:00.0") }]);
    expect(topology.ports.map(({ index }) => index)).toEqual([1, 2, 3]);
  });

  test.each([
    { devices: [], vcpus: 1, ports: 194 },
    { devices: [{ name: "disk:a" }], vcpus: 1, ports: 192 },
    { devices: [{ name: "disk:a" }], vcpus: 2, ports: 232 },
    { devices: [{ name: "scsi" }, { name: "usb" }], vcpus: 1, ports: 188 },
    { devices: [{ name: "input:a" }, { name: "rng" }], vcpus: 1, ports: 189 },
    { devices: [{ name: "display" }], vcpus: 1, ports: 193 },
  ] as const)(
    "limits ports by the interrupt vectors of $devices with $vcpus vCPUs",
    ({ devices, vcpus, ports }) => {
      const topology = planned(aRequest({ version: 3, devices, vcpus, reserve: 300 }));
      expect(topology.ports).toHaveLength(ports);
    },
  );

  test("without devices equals version 2", () => {
    expect(planTopology(aRequest({ version: 3, nics: [aNic("a")] }))).toEqual(
      planTopology(aRequest({ version: 2, nics: [aNic("a")] })),
    );
  });
});
