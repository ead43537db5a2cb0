// SPDX-License-Identifier: Apache-2.0
import type { Iface, Network, VmiSpec, BindingRegistry } from "@patchbay/api";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { chooseMac, findMac, findMacConflicts, findOwnMacConflicts, withMacs } from "./mac.ts";

function specOf(ifaces: readonly Iface[], networks: readonly Network[]): VmiSpec {
  return { domain: { devices: { interfaces: [...ifaces] } }, networks: [...networks] };
}

function onBlue(iface: Omit<Iface, "name">, networkName = "blue"): VmiSpec {
  return specOf(
    [{ name: "nic", bridge: {}, ...iface }],
    [{ name: "nic", multus: { networkName } }],
  );
}

const SOCKET: Pick<Iface, "binding"> = { binding: { name: "socket" } };
const SOCKET_BINDINGS: BindingRegistry = { socket: { domainAttachmentType: "vhostuser" } };

/** An interface whose MAC no network reports. */
function onSocket(iface: Omit<Iface, "name">, networkName = "blue"): VmiSpec {
  return specOf([{ name: "nic", ...SOCKET, ...iface }], [{ name: "nic", multus: { networkName } }]);
}

/** Counts up, so that each draw is another MAC. */
function counting(): (size: number) => Uint8Array {
  let draws = 0;
  return (size) => new Uint8Array(size).fill(++draws, size - 1);
}

test.each([
  {
    name: "the spec's MAC first",
    facts: {
      iface: { name: "a", macAddress: "02-00-00-00-00-0A" },
      attachment: {
        name: "a",
        podInterfaceName: "eth0",
        state: "Attached",
        mac: "02:00:00:00:00:0b",
      },
      links: { mac: "02:00:00:00:00:0c" },
    } as const,
    want: "02:00:00:00:00:0a",
  },
  {
    name: "then the NIC's MAC",
    facts: {
      attachment: {
        name: "a",
        podInterfaceName: "eth0",
        state: "Attached",
        mac: "02:00:00:00:00:0b",
      },
      links: { mac: "02:00:00:00:00:0c" },
    } as const,
    want: "02:00:00:00:00:0c",
  },
  {
    name: "then the MAC in the pod's status if the NIC is not observed",
    facts: {
      attachment: {
        name: "a",
        podInterfaceName: "eth0",
        state: "Attached",
        mac: "02:00:00:00:00:0b",
      },
    } as const,
    want: "02:00:00:00:00:0b",
  },
])("the guest's MAC: $name", ({ facts, want }) => {
  expect(findMac(facts)).toBe(want);
});

describe("a new MAC", () => {
  test("is local and unicast for any random bytes", () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 6, maxLength: 6 }), (bytes) => {
        const mac = chooseMac(new Set(), () => bytes);
        expect(mac).toMatch(/^[0-9a-f]{2}(:[0-9a-f]{2}){5}$/);
        expect(parseInt(mac.slice(0, 2), 16) & 0x03).toBe(0x02);
      }),
    );
  });

  test("differs from a MAC in use", () => {
    expect(chooseMac(new Set(["02:00:00:00:00:01"]), counting())).toBe("02:00:00:00:00:02");
  });
});

describe("missing MACs", () => {
  const sources = { namespace: "ns", earlier: [], bindings: SOCKET_BINDINGS };

  test("are generated only where no network reports a MAC", () => {
    const spec = specOf(
      [
        { name: "default", bridge: {} },
        { name: "nic", ...SOCKET },
        { name: "gone", ...SOCKET, state: "absent" },
        { name: "bridged", bridge: {} },
        { name: "unknown", binding: { name: "not-registered" } },
      ],
      [
        { name: "default", pod: {} },
        ...["nic", "gone", "bridged", "unknown"].map((name) => ({
          name,
          multus: { networkName: name },
        })),
      ],
    );
    const macs = withMacs(spec, { ...sources, randomBytes: counting() }).map(
      ({ macAddress }) => macAddress,
    );
    expect(macs).toEqual([undefined, "02:00:00:00:00:01", undefined, undefined, undefined]);
  });

  test.each<{ name: string; given: VmiSpec; earlier: VmiSpec; want: string }>([
    {
      name: "what is there stays",
      given: onSocket({ macAddress: "02:aa:00:00:00:01" }),
      earlier: onSocket({ macAddress: "02:bb:00:00:00:01" }),
      want: "02:aa:00:00:00:01",
    },
    {
      name: "the same iface on the same network keeps its earlier MAC",
      given: onSocket({}, "ns/blue"),
      earlier: onSocket({ macAddress: "02:bb:00:00:00:01" }),
      want: "02:bb:00:00:00:01",
    },
    {
      name: "on another network it gets a new one",
      given: onSocket({}, "red"),
      earlier: onSocket({ macAddress: "02:bb:00:00:00:01" }),
      want: "02:00:00:00:00:01",
    },
  ])("$name", ({ given: input, earlier, want }) => {
    const ifaces = withMacs(input, { ...sources, earlier: [earlier], randomBytes: counting() });
    expect(ifaces.map(({ macAddress }) => macAddress)).toEqual([want]);
  });
});

test("generates MACs that are unique and differ from existing ones in any notation", () => {
  const spec = specOf(
    [
      { name: "a", ...SOCKET, macAddress: "02-00-00-00-00-01" },
      { name: "b", ...SOCKET },
      { name: "c", ...SOCKET, macAddress: "" },
    ],
    ["a", "b", "c"].map((name) => ({ name, multus: { networkName: "blue" } })),
  );
  // Each of the first draws comes twice.
  let draws = 0;
  const randomBytes = (size: number): Uint8Array =>
    new Uint8Array(size).fill(1 + Math.floor(draws++ / 2), size - 1);
  const macs = withMacs(spec, {
    namespace: "ns",
    bindings: SOCKET_BINDINGS,
    earlier: [],
    randomBytes,
  });
  expect(macs.map(({ macAddress }) => macAddress)).toEqual([
    "02-00-00-00-00-01",
    "02:00:00:00:00:02",
    "02:00:00:00:00:03",
  ]);
});

test("uses the first earlier NIC that has a MAC", () => {
  const mac = "02:cc:00:00:00:01";
  const earlier = [onSocket({}), onSocket({ macAddress: "" }), onSocket({ macAddress: mac })];
  const elsewhere = specOf([], [{ name: "nic", multus: { networkName: "blue" } }]);
  const sources = {
    namespace: "ns",
    bindings: SOCKET_BINDINGS,
    earlier: [elsewhere, ...earlier],
    randomBytes: counting(),
  };
  expect(withMacs(onSocket({}), sources)[0]?.macAddress).toBe(mac);
});

test("does not use an earlier MAC that another iface of the network now has", () => {
  const mac = "02:cc:00:00:00:01";
  const network = { multus: { networkName: "blue" } };
  const networks = [
    { name: "nic", ...network },
    { name: "other", ...network },
  ];
  const input = specOf(
    [
      { name: "nic", ...SOCKET },
      { name: "other", ...SOCKET, macAddress: mac },
    ],
    networks,
  );
  const earlier = [onSocket({ macAddress: mac })];
  const macs = withMacs(input, {
    namespace: "ns",
    bindings: SOCKET_BINDINGS,
    earlier,
    randomBytes: counting(),
  });
  expect(macs.map(({ macAddress }) => macAddress)).toEqual(["02:00:00:00:00:01", mac]);
});

test("accepts a duplicate MAC from a broken source of random bytes", () => {
  const stuck = (size: number): Uint8Array => new Uint8Array(size);
  expect(chooseMac(new Set(["02:00:00:00:00:00"]), stuck)).toBe("02:00:00:00:00:00");
});

test("the first byte is random too", () => {
  const first = (size: number): Uint8Array => new Uint8Array(size).fill(0xf0);
  expect(chooseMac(new Set(), first)).toBe("f2:f0:f0:f0:f0:f0");
});

describe("NICs with the same MAC", () => {
  const own = { namespace: "ns", name: "vm", spec: onBlue({ macAddress: "02-AA-00-00-00-01" }) };
  const mac = "02:aa:00:00:00:01";

  test.each<{ name: string; other: Parameters<typeof findMacConflicts>[0]; want: number }>([
    {
      name: "one MAC on one network",
      other: { ...own, name: "other", spec: onBlue({ macAddress: mac }, "ns/blue") },
      want: 1,
    },
    {
      name: "one MAC on networks with the same name in two namespaces",
      other: { namespace: "elsewhere", name: "other", spec: onBlue({ macAddress: mac }) },
      want: 0,
    },
    { name: "the VM itself", other: own, want: 0 },
    {
      name: "a VM with the same name in another namespace",
      other: { ...own, namespace: "x" },
      want: 0,
    },
    {
      name: "a VM with the same name in another namespace, on the same network",
      other: { ...own, namespace: "x", spec: onBlue({ macAddress: mac }, "ns/blue") },
      want: 1,
    },
    { name: "a VM without a MAC", other: { ...own, name: "other", spec: onBlue({}) }, want: 0 },
    {
      name: "a VM on the pod network",
      other: {
        ...own,
        name: "other",
        spec: specOf([{ name: "nic", macAddress: mac }], [{ name: "nic", pod: {} }]),
      },
      want: 0,
    },
    {
      name: "an iface that is being unplugged",
      other: { ...own, name: "other", spec: onBlue({ macAddress: mac, state: "absent" }) },
      want: 0,
    },
  ])("$name: $want", ({ other, want }) => {
    expect(findMacConflicts(own, [other])).toHaveLength(want);
  });

  test("do not exist without a MAC or on the pod network", () => {
    const none = { ...own, spec: onBlue({}) };
    expect(findMacConflicts(none, [{ ...none, name: "other" }])).toEqual([]);
    const pod = specOf([{ name: "nic", macAddress: mac }], [{ name: "nic", pod: {} }]);
    const onPod = { ...own, spec: pod };
    expect(findMacConflicts(onPod, [{ ...onPod, name: "other" }])).toEqual([]);
  });

  test("are reported with interface, network and VM", () => {
    const other = { ...own, name: "other" };
    expect(findMacConflicts(own, [other])).toEqual([
      {
        index: 0,
        mac,
        network: "ns/blue",
        owner: "ns/other",
        isOwnerHalted: false,
        isOtherNetwork: false,
      },
    ]);
  });

  test("prefers a running VM over a halted one", () => {
    const running = { ...own, name: "running" };
    const halted = { ...own, name: "halted", isHalted: true as const };
    for (const others of [
      [running, halted],
      [halted, running],
    ]) {
      expect(findMacConflicts(own, others)).toMatchObject([
        { owner: "ns/running", isOwnerHalted: false },
      ]);
    }
    expect(findMacConflicts(own, [halted])).toMatchObject([
      { owner: "ns/halted", isOwnerHalted: true },
    ]);
  });

  test.each([
    { name: "two networks on one bridge", bridge: "br1", other: mac.toUpperCase(), want: 1 },
    { name: "two bridges", bridge: undefined, other: mac, want: 0 },
    { name: "one bridge with other MACs", bridge: "br1", other: "02:00:00:00:00:ff", want: 0 },
  ])("are found within one VM on $name: $want", ({ bridge, other, want }) => {
    const spec = specOf(
      [
        { name: "a", bridge: {}, macAddress: mac },
        { name: "b", bridge: {}, macAddress: other },
      ],
      [
        { name: "a", multus: { networkName: "blue" } },
        { name: "b", multus: { networkName: "red" } },
      ],
    );
    const twin = { index: 1, earlier: 0, mac, networks: ["ns/red", "ns/blue"] };
    const found = findOwnMacConflicts({ ...own, spec }, (network) => bridge ?? network);
    expect(found).toEqual(Array.from({ length: want }, () => twin));
  });

  test("are found within one VM on another network than the NIC's own", () => {
    const names = ["a", "b", "c", "d"];
    const spec = specOf(
      names.map((name) => ({ name, bridge: {}, macAddress: mac })),
      names.map((name, index) => ({
        name,
        multus: { networkName: ["x", "x", "y", "z"][index] ?? "" },
      })),
    );
    const found = findOwnMacConflicts({ ...own, spec }, () => "br1");
    expect(found.map(({ index, earlier }) => [index, earlier])).toEqual([
      [2, 0],
      [3, 0],
    ]);
  });

  test("are found on networks that share a bridge", () => {
    const other = { ...own, name: "other", spec: onBlue({ macAddress: mac }, "ns/blue2") };
    expect(findMacConflicts(own, [other])).toEqual([]);
    expect(findMacConflicts(own, [other], () => "bridge br1 0")).toMatchObject([
      { network: "ns/blue", isOtherNetwork: true },
    ]);
  });
});
