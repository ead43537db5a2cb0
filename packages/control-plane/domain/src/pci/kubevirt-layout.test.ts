// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { aNic, aRequest, at, planned, printAddresses } from "../testing/topology.ts";
import { printPciAddress } from "./addresses.ts";
import { planKubeVirtLayout } from "./kubevirt-layout.ts";
import { planTopology, type FixedDevice } from "./topology.ts";

type Machine = Parameters<typeof planKubeVirtLayout>[0];

interface Row {
  readonly name: string;
  readonly given: Partial<Machine>;
  /** Bus of each device. */
  readonly buses: Readonly<Record<string, number>>;
  readonly ports: number;
}

const ROWS: readonly Row[] = [
  {
    // Source: KubeVirt, documentation of its PCI topology, example of version 1, on which version 3 is based; e2e test: 3 ports are free.
    name: "one NIC has three empty ports behind it",
    given: { nics: ["a"], devices: ["disk:root", "rng"] },
    buses: { a: 1, scsi: 5, guestAgent: 6, "disk:root": 7, rng: 9 },
    ports: 9,
  },
  {
    // Source: KubeVirt tests/hotplug/pci-ports.go: 9 ports are free with more than 2 GiB.
    name: "a VM with more memory has more ports behind all devices",
    given: { nics: ["a"], devices: ["disk:root", "rng"], memoryMiB: 2150 },
    buses: { a: 1, scsi: 5, guestAgent: 6, "disk:root": 7, rng: 9 },
    ports: 15,
  },
  {
    // Source: KubeVirt tests/hotplug/pci-ports.go: 6 ports are free with 6 more disks.
    name: "many disks leave the minimum of free ports",
    given: {
      nics: ["a"],
      devices: ["disk:0", "disk:1", "disk:2", "disk:3", "disk:4", "disk:5", "disk:6", "rng"],
      memoryMiB: 2150,
    },
    buses: {
      a: 1,
      scsi: 5,
      guestAgent: 6,
      "disk:0": 7,
      "disk:1": 8,
      "disk:2": 9,
      "disk:3": 10,
      "disk:4": 11,
      "disk:5": 12,
      "disk:6": 13,
      rng: 15,
    },
    ports: 18,
  },
  {
    name: "2 GiB are not more than 2 GiB",
    given: { nics: ["a"], devices: ["disk:root", "rng"], memoryMiB: 2048 },
    buses: { a: 1, scsi: 5, guestAgent: 6, "disk:root": 7, rng: 9 },
    ports: 9,
  },
  {
    name: "four NICs have no empty ports between them and other devices",
    given: { nics: ["a", "b", "c", "d"], devices: [] },
    buses: { a: 1, b: 2, c: 3, d: 4, scsi: 5, guestAgent: 6 },
    ports: 10,
  },
  {
    name: "five NICs need a fifth port",
    given: { nics: ["a", "b", "c", "d", "e"], devices: [] },
    buses: { a: 1, b: 2, c: 3, d: 4, e: 5, scsi: 6, guestAgent: 7 },
    ports: 11,
  },
  {
    name: "without a NIC there are no empty ports before other devices",
    given: { nics: [], devices: ["usb", "disk:root", "input:0"] },
    buses: { usb: 1, scsi: 2, guestAgent: 3, "disk:root": 4, "input:0": 6 },
    ports: 9,
  },
  {
    // Source: KubeVirt, documentation of its PCI topology, example of version 2: a slot count of 10, the disk at bus 0x0d.
    name: "a slot count places other devices behind as many ports",
    given: { nics: ["a"], devices: ["disk:root"], slotCount: 10, memoryMiB: 4096 },
    buses: { a: 1, scsi: 11, guestAgent: 12, "disk:root": 13 },
    ports: 15,
  },
  {
    name: "a slot count below the number of NICs adds no ports",
    given: { nics: ["a", "b"], devices: [], slotCount: 1 },
    buses: { a: 1, b: 2, scsi: 3, guestAgent: 4 },
    ports: 8,
  },
  {
    name: "a slot count applies without a NIC",
    given: { nics: [], devices: [], slotCount: 2 },
    buses: { scsi: 3, guestAgent: 4 },
    ports: 7,
  },
  {
    name: "a display, SATA controllers and a watchdog are behind no port, and a watchdog counts",
    given: { nics: ["a"], devices: ["display", "sata:1", "watchdog"], memoryMiB: 4096 },
    buses: { a: 1, scsi: 5, guestAgent: 6 },
    ports: 14,
  },
  {
    name: "no extra port has an index above 31",
    given: { nics: ["a"], devices: [], slotCount: 28, memoryMiB: 4096 },
    buses: { a: 1, scsi: 29, guestAgent: 30 },
    ports: 31,
  },
];

describe("in KubeVirt's layout", () => {
  test.each(ROWS)("$name", ({ given, buses, ports }) => {
    const layout = planKubeVirtLayout({ nics: [], devices: [], memoryMiB: 1024, ...given });
    const places = [...layout.nicAddresses, ...layout.fixedAddresses].map(
      ([name, address]) => [name, printPciAddress(address)] as const,
    );
    const want = Object.entries(buses).map(
      ([name, bus]) => [name, `0000:${bus.toString(16).padStart(2, "0")}:00.0`] as const,
    );
    expect(Object.fromEntries(places)).toEqual(Object.fromEntries(want));
    expect(layout.portCount).toBe(ports);
  });
});

describe("a domain in KubeVirt's layout", () => {
  const layout = planKubeVirtLayout({ nics: ["a"], devices: ["disk:root"], memoryMiB: 1024 });
  const device = (name: FixedDevice) => {
    const previous = layout.fixedAddresses.get(name);
    return { name, ...(previous !== undefined && { previous }) };
  };
  const previous = layout.nicAddresses.get("a") ?? at("0000:00:00.0");
  const request = aRequest({
    nics: [aNic("a", { previous })],
    devices: [device("guestAgent"), device("disk:root")],
    portCount: layout.portCount,
    reserve: 32,
    version: 3,
  });

  test("has its addresses, and as many ports as KubeVirt's", () => {
    const topology = planned(request);
    expect(printAddresses(topology)).toEqual({ a: "0000:01:00.0" });
    expect(Object.fromEntries(topology.fixedAddresses)).toEqual({
      guestAgent: at("0000:06:00.0"),
      "disk:root": at("0000:07:00.0"),
    });
    expect(topology.ports).toHaveLength(layout.portCount);
  });

  test("places a new NIC in the first empty port", () => {
    const nics = [...request.nics, aNic("b")];
    expect(printAddresses(planned({ ...request, nics }))).toMatchObject({ b: "0000:02:00.0" });
  });

  test("has more ports if its devices need them", () => {
    const far = aNic("b", { requested: at("0000:14:00.0") });
    const plan = planTopology({ ...request, nics: [...request.nics, far] });
    expect(plan.ok && plan.topology.ports).toHaveLength(20);
  });
});
