// SPDX-License-Identifier: Apache-2.0
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { aNic, aRequest, at, printAddresses, planned } from "../testing/topology.ts";
import { printPciAddress, type PciAddress } from "./addresses.ts";
import { planTopology } from "./topology.ts";

describe("a layout of version 1", () => {
  test.each([
    {
      name: "gives each NIC its own port, in order, before the reserve",
      given: { nics: [aNic("a"), aNic("b")], reserve: 3 },
      places: { a: "0000:01:00.0", b: "0000:02:00.0" },
      ports: 5,
    },
    {
      name: "retains a NIC's port, and fills the gaps with other NICs",
      given: {
        nics: [aNic("a"), aNic("b", { previous: at("0000:01:00.0") }), aNic("c")],
        reserve: 1,
      },
      places: { b: "0000:01:00.0", a: "0000:02:00.0", c: "0000:03:00.0" },
      ports: 4,
    },
    {
      name: "has all ports up to the last used port",
      given: { nics: [aNic("a", { previous: at("0000:07:00.0") })], reserve: 0 },
      places: { a: "0000:07:00.0" },
      ports: 7,
    },
    {
      name: "assigns a requested port, and moves the previous NIC",
      given: {
        nics: [
          aNic("a", { previous: at("0000:02:00.0") }),
          aNic("b", { requested: at("0000:02:00.0") }),
        ],
        reserve: 1,
      },
      places: { b: "0000:02:00.0", a: "0000:01:00.0" },
      ports: 3,
    },
    {
      name: "moves a NIC from the root complex into a port",
      given: { nics: [aNic("a", { previous: at("0000:00:02.0") })], reserve: 2 },
      places: { a: "0000:01:00.0" },
      ports: 3,
    },
    {
      name: "moves a NIC whose new model needs I/O ports to the root complex",
      given: { nics: [aNic("a", { model: "pcnet", previous: at("0000:01:00.0") })], reserve: 1 },
      places: { a: "0000:00:1e.0" },
      ports: 1,
    },
    {
      name: "places models with I/O ports on the root complex, from the highest slot",
      given: { nics: [aNic("a", { model: "pcnet" }), aNic("b")], reserve: 1 },
      places: { a: "0000:00:1e.0", b: "0000:01:00.0" },
      ports: 2,
    },
    {
      name: "has no ports if all NICs are on the root complex",
      given: { nics: [aNic("a"), aNic("b")], isOnRootComplex: true },
      places: { a: "0000:00:02.0", b: "0000:00:03.0" },
      ports: 0,
    },
    {
      name: "of pc has slots",
      given: { family: "pc", nics: [aNic("a"), aNic("b", { requested: at("0000:00:1f.0") })] },
      places: { b: "0000:00:1f.0", a: "0000:00:02.0" },
      ports: 0,
    },
    {
      name: "of pc has no ports, regardless of the reserve",
      given: { family: "pc", nics: [], reserve: 3 },
      places: {},
      ports: 0,
    },
    {
      name: "of pc retains a NIC in the last slot",
      given: { family: "pc", nics: [aNic("a", { previous: at("0000:00:1f.0") })] },
      places: { a: "0000:00:1f.0" },
      ports: 0,
    },
    {
      name: "moves a NIC out of the root complex's last slot, which the chipset uses",
      given: { nics: [aNic("a", { previous: at("0000:00:1f.0") })], isOnRootComplex: true },
      places: { a: "0000:00:02.0" },
      ports: 0,
    },
    {
      name: "assigns a requested port regardless of the previous port",
      given: {
        nics: [
          aNic("a", { requested: at("0000:03:00.0"), previous: at("0000:01:00.0") }),
          aNic("b", { previous: at("0000:01:00.0") }),
        ],
        reserve: 0,
      },
      places: { a: "0000:03:00.0", b: "0000:01:00.0" },
      ports: 3,
    },
    {
      name: "places an unknown model in a port",
      given: { nics: [aNic("a", { model: "a model of tomorrow" })], reserve: 0 },
      places: { a: "0000:01:00.0" },
      ports: 1,
    },
    {
      name: "has no ports if a NIC requests the first slot",
      given: { nics: [aNic("a", { requested: at("0000:00:02.0") })], reserve: 3 },
      places: { a: "0000:00:02.0" },
      ports: 0,
    },
    {
      name: "has only the ports that fit into slots below a requested slot",
      given: {
        nics: [
          aNic("a", { requested: at("0000:00:03.0") }),
          aNic("b", { previous: at("0000:08:00.0") }),
        ],
        reserve: 3,
      },
      places: { a: "0000:00:03.0", b: "0000:08:00.0" },
      ports: 8,
    },
    {
      name: "has no ports in slots that NICs use",
      given: { nics: [aNic("a", { model: "pcnet" })], reserve: 300, vcpus: 2 },
      places: { a: "0000:00:1e.0" },
      ports: 224,
    },
    {
      name: "supports a NIC in the last possible port",
      given: { nics: [aNic("a", { requested: at("0000:e8:00.0") })], reserve: 0, vcpus: 2 },
      places: { a: "0000:e8:00.0" },
      ports: 232,
    },
    {
      name: "reserves no more ports than the guest has interrupt vectors for",
      given: { nics: [aNic("a", { queues: 8 })], reserve: 300, vcpus: 1 },
      places: { a: "0000:01:00.0" },
      ports: 179,
    },
    {
      name: "reserves no more ports than the root complex has slots for",
      given: { nics: [], reserve: 300, vcpus: 2 },
      places: {},
      ports: 232,
    },
  ] as const)("$name", ({ given: input, places, ports }) => {
    const topology = planned(aRequest(input));
    expect(printAddresses(topology)).toEqual(places);
    expect(topology.ports).toHaveLength(ports);
  });

  test.each([
    { requested: "0000:00:01.0", says: "only slots 2 to 30, function 0, can be used" },
    { requested: "0000:00:1f.0", says: "only slots 2 to 30, function 0, can be used" },
    { requested: "0000:00:05.1", says: "only slots 2 to 30, function 0, can be used" },
    {
      requested: "0000:01:01.0",
      says: "this bus has only slot 0; use 0000:02:01.0 to 0000:02:1f.0 for a conventional slot",
    },
    {
      requested: "0000:11:01.0",
      says: "this bus has only slot 0; use 0000:12:01.0 to 0000:12:1f.0 for a conventional slot",
    },
    { requested: "0000:05:01.1", says: "only function 0 of a slot can be used" },
    { requested: "0000:05:00.1", says: "only function 0 of a slot can be used" },
    { requested: "0000:ff:00.0", says: "the last bus is 232" },
  ])("rejects the address $requested", ({ requested, says: message }) => {
    const plan = planTopology(aRequest({ nics: [aNic("a", { requested: at(requested) })] }));
    expect(plan).toEqual({
      ok: false,
      problems: [{ nic: "a", message: `${requested}: ${message}` }],
    });
  });

  test.each([
    {
      given: { family: "pc" },
      requested: "0000:01:00.0",
      says: "only bus 0 exists",
    },
    {
      given: { family: "pc" },
      requested: "0000:00:01.0",
      says: "only slots 2 to 31, function 0, can be used",
    },
    {
      given: { isOnRootComplex: true },
      requested: "0000:05:00.0",
      says: "the VM has no PCIe ports: its devices are on the root complex",
    },
  ] as const)(
    "rejects the address $requested because $says",
    ({ given: input, requested, says: message }) => {
      const plan = planTopology(
        aRequest({ ...input, nics: [aNic("a", { requested: at(requested) })] }),
      );
      expect(plan).toEqual({
        ok: false,
        problems: [{ nic: "a", message: `${requested}: ${message}` }],
      });
    },
  );

  test("rejects NICs beyond the free slots, and names each", () => {
    const nics = Array.from({ length: 32 }, (_unused, index) => aNic(`n${String(index)}`));
    const message = "there is no free PCI slot for it";
    expect(planTopology(aRequest({ family: "pc", nics }))).toEqual({
      ok: false,
      problems: [
        { nic: "n30", message },
        { nic: "n31", message },
      ],
    });
  });

  test("rejects a NIC in a slot that is needed for other NICs' ports", () => {
    const nics = [aNic("a", { requested: at("0000:00:02.0") }), aNic("b")];
    const message =
      "0000:00:02.0: 1 PCIe ports take the slots of bus 0 below 3; use a slot from 3 to 30, or another bus";
    expect(planTopology(aRequest({ nics }))).toEqual({
      ok: false,
      problems: [{ nic: "a", message }],
    });
  });

  test.each([
    {
      name: "an address behind more ports than fit below devices on bus 0",
      nics: [aNic("a", { requested: at("0000:e8:00.0") }), aNic("b", { model: "pcnet" })],
      vcpus: 2,
      want: {
        nic: "a",
        message:
          "0000:e8:00.0: only 224 PCIe ports fit beside the devices on bus 0; the last address behind a port is 0000:e0:00.0",
      },
    },
    {
      name: "a previous address behind more ports than fit below devices on bus 0",
      nics: [aNic("a", { previous: at("0000:e8:00.0") }), aNic("b", { model: "pcnet" })],
      vcpus: 2,
      want: { message: "232 PCIe ports take the slots of a device on bus 0" },
    },
    {
      name: "an address behind more ports than the guest has interrupt vectors for",
      nics: [aNic("a"), aNic("b", { requested: at("0000:c8:01.0") })],
      vcpus: 1,
      want: {
        nic: "b",
        message:
          "0000:c8:01.0: the guest has interrupt vectors for 190 PCIe ports with 1 vCPUs: give the VM more vCPUs, or use an address up to 0000:be:00.0",
      },
    },
  ])("rejects $name", ({ nics, vcpus, want }) => {
    expect(planTopology(aRequest({ nics, vcpus }))).toEqual({ ok: false, problems: [want] });
  });

  test("has as many NICs as the guest has interrupt vectors for", () => {
    const nics = Array.from({ length: 49 }, (_unused, index) => aNic(`n${String(index)}`));
    expect(planned(aRequest({ nics, reserve: 3 })).ports).toHaveLength(49);
  });

  test("rejects two NICs at one address, and names both", () => {
    const requested = at("0000:03:00.0");
    const plan = planTopology(
      aRequest({ nics: [aNic("a", { requested }), aNic("b", { requested })] }),
    );
    const message = "0000:03:00.0: is also the address of interface a";
    expect(plan).toEqual({ ok: false, problems: [{ nic: "b", message }] });
  });

  test("rejects more NICs than the guest has interrupt vectors for", () => {
    const nics = Array.from({ length: 50 }, (_unused, index) => aNic(`n${String(index)}`));
    const plan = planTopology(aRequest({ nics }));
    const message =
      "50 interfaces and 50 PCIe ports need more interrupt vectors than 1 vCPUs have: give the VM more vCPUs";
    expect(plan).toEqual({ ok: false, problems: [{ message }] });
  });
});

describe("a conventional slot", () => {
  const E1000 = { model: "e1000" } as const;
  const IN_SLOT = { ...E1000, requested: at("0000:02:01.0") };

  test.each([
    {
      name: "is behind a bridge in the previous port, and omits its own port",
      nics: [aNic("a", IN_SLOT), aNic("b")],
      reserve: 1,
      places: { a: "0000:02:01.0", b: "0000:03:00.0" },
      bridges: ["2 0000:01:00.0"],
      ports: [1, 3, 4],
    },
    {
      name: "shares its bridge with other slots of its bus and with a NIC plugged there",
      nics: [
        aNic("a", IN_SLOT),
        aNic("b", { requested: at("0000:02:1f.0") }),
        aNic("c", { previous: at("0000:02:05.0") }),
      ],
      reserve: 0,
      places: { a: "0000:02:01.0", b: "0000:02:1f.0", c: "0000:02:05.0" },
      bridges: ["2 0000:01:00.0"],
      ports: [1],
    },
    {
      name: "moves NICs from the bridge's port and bus",
      nics: [
        aNic("a", IN_SLOT),
        aNic("b", { previous: at("0000:01:00.0") }),
        aNic("c", { previous: at("0000:02:00.0") }),
      ],
      reserve: 0,
      places: { a: "0000:02:01.0", b: "0000:03:00.0", c: "0000:04:00.0" },
      bridges: ["2 0000:01:00.0"],
      ports: [1, 3, 4],
    },
    {
      name: "is released if no NIC requests it",
      nics: [aNic("a", { previous: at("0000:02:01.0") })],
      reserve: 0,
      places: { a: "0000:01:00.0" },
      bridges: [],
      ports: [1],
    },
  ])("$name", ({ nics, reserve, places, bridges, ports }) => {
    const topology = planned(aRequest({ nics, reserve }));
    expect(printAddresses(topology)).toEqual(places);
    const printed = topology.bridges.map(
      ({ index, address }) => `${String(index)} ${printPciAddress(address)}`,
    );
    expect(printed).toEqual(bridges);
    expect(topology.ports.map(({ index }) => index)).toEqual(ports);
  });

  test.each([
    {
      requested: "0000:01:00.0",
      says: "is also the address of the PCI bridge of a conventional slot",
    },
    {
      requested: "0000:02:00.0",
      says: "is also the address of the PCI bridge of a conventional slot",
    },
    {
      requested: "0000:03:01.0",
      says: "its PCI bridge needs 0000:02:00.0, the address of the PCI bridge of a conventional slot",
    },
  ])("rejects $requested beside 0000:02:01.0", ({ requested, says: message }) => {
    const nics = [aNic("a", IN_SLOT), aNic("b", { requested: at(requested) })];
    expect(planTopology(aRequest({ nics }))).toEqual({
      ok: false,
      problems: [{ nic: "b", message: `${requested}: ${message}` }],
    });
  });
});

describe("a layout of version 2", () => {
  test.each([
    {
      name: "has the guest agent's channel in the first port, beside the reserve",
      given: { nics: [aNic("a"), aNic("b")], reserve: 3 },
      agent: "0000:01:00.0",
      places: { a: "0000:02:00.0", b: "0000:03:00.0" },
      ports: 6,
    },
    {
      name: "has the guest agent's channel in pc's first slot",
      given: { family: "pc", nics: [aNic("a")] },
      agent: "0000:00:02.0",
      places: { a: "0000:00:03.0" },
      ports: 0,
    },
    {
      name: "has the guest agent's channel in the root complex's first slot",
      given: { nics: [aNic("a")], isOnRootComplex: true },
      agent: "0000:00:02.0",
      places: { a: "0000:00:03.0" },
      ports: 0,
    },
    {
      name: "counts the channel's interrupt vectors",
      given: { nics: [aNic("a", { queues: 8 })], reserve: 300, vcpus: 1 },
      agent: "0000:01:00.0",
      places: { a: "0000:02:00.0" },
      ports: 177,
    },
  ] as const)("$name", ({ given: input, agent, places, ports }) => {
    const topology = planned(aRequest({ version: 2, ...input }));
    expect([...topology.fixedAddresses.values()].map(printPciAddress)).toEqual([agent]);
    expect(printAddresses(topology)).toEqual(places);
    expect(topology.ports).toHaveLength(ports);
  });

  test("assigns the first port to a NIC that requests it, not to the agent's channel", () => {
    const nics = [aNic("a", { requested: at("0000:01:00.0") })];
    const topology = planned(aRequest({ version: 2, nics, reserve: 1 }));
    expect(printAddresses(topology)).toEqual({ a: "0000:01:00.0" });
    expect(printPlaces(topology.fixedAddresses)).toEqual(["guestAgent 0000:02:00.0"]);
    expect(topology.ports).toHaveLength(3);
  });

  test("is replaced with version 3 for unknown versions", () => {
    const nics = [aNic("a")];
    expect(planTopology(aRequest({ version: 99, nics }))).toEqual(
      planTopology(aRequest({ version: 3, nics })),
    );
  });
});

/** What may happen to a VM between two starts. */
type Step =
  | { readonly kind: "plug"; readonly name: string }
  | { readonly kind: "unplug"; readonly name: string }
  | { readonly kind: "restart"; readonly reserve: number };

const NAMES = Array.from({ length: 12 }, (_unused, index) => `n${String(index)}`);
const STEP: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ kind: fc.constant("plug" as const), name: fc.constantFrom(...NAMES) }),
  fc.record({ kind: fc.constant("unplug" as const), name: fc.constantFrom(...NAMES) }),
  fc.record({ kind: fc.constant("restart" as const), reserve: fc.integer({ min: 0, max: 40 }) }),
);

function printPlaces(places: ReadonlyMap<string, PciAddress>): readonly string[] {
  return [...places].map(([name, place]) => `${name} ${printPciAddress(place)}`);
}

/** A VM as the control plane remembers it: where its NICs are, and how many ports its domain has. */
class Remembered {
  readonly places = new Map<string, PciAddress>();
  /** What must not be. */
  readonly violations: string[] = [];
  readonly #version: number;
  #ports = 0;

  constructor(version: number) {
    this.#version = version;
    this.#restart(0);
  }

  do(step: Step): void {
    const before = printPlaces(this.places);
    if (step.kind === "unplug") this.places.delete(step.name);
    if (step.kind === "plug") this.#plug(step.name);
    if (step.kind === "restart") this.#restart(step.reserve);
    const after = printPlaces(this.places);
    const moved = before.filter(
      (place) => this.places.has(place.split(" ")[0] ?? "") && !after.includes(place),
    );
    this.violations.push(...moved.map((place) => `${place} was moved`));
    const buses = [...this.places.values()].map(({ bus }) => bus);
    if (new Set(buses).size !== buses.length) this.violations.push("a port is used twice");
  }

  #plug(name: string): void {
    const fixed = planned(aRequest({ version: this.#version })).fixedAddresses;
    const used = new Set([...fixed.values(), ...this.places.values()].map(({ bus }) => bus));
    const buses = Array.from({ length: this.#ports }, (_unused, index) => index + 1);
    const bus = buses.find((candidate) => !used.has(candidate));
    if (bus !== undefined && !this.places.has(name))
      this.places.set(name, { bus, slot: 0, function: 0 });
  }

  #restart(reserve: number): void {
    const nics = [...this.places].map(([name, retained]) => aNic(name, { previous: retained }));
    const request = aRequest({ version: this.#version, nics, reserve, vcpus: 2 });
    const { ports, nicAddresses: addresses, fixedAddresses: fixed } = planned(request);
    for (const [name, place] of addresses) this.places.set(name, place);
    if (ports.length < this.places.size + fixed.size + reserve)
      this.violations.push("the reserve is too small");
    this.#ports = ports.length;
  }
}

test("no sequence of plug, unplug and restart moves a device or uses a port twice", () => {
  fc.assert(
    fc.property(fc.constantFrom(1, 2, 3), fc.array(STEP, { maxLength: 60 }), (version, steps) => {
      const vm = new Remembered(version);
      for (const step of steps) vm.do(step);
      expect(vm.violations).toEqual([]);
    }),
    { numRuns: 300 },
  );
});
