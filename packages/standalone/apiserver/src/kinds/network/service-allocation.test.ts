// SPDX-License-Identifier: Apache-2.0
// Addresses and ports of the node that Services get.
import { describe, expect, test } from "vitest";
import type { Fields } from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import { objectOf, printCauses, withDefaults } from "../../testing/judge.ts";
import { SERVICE } from "./service.ts";

const NETWORK = "10.96.0.0/28";

interface Surroundings {
  /** Services of another namespace. */
  readonly others?: readonly Fields[];
  /** Services of the same namespace. */
  readonly own?: readonly Fields[];
  readonly namespace?: string;
  readonly random?: number;
  readonly before?: Fields;
  readonly network?: string;
}

const inNamespace =
  (namespace: string) =>
  (spec: Fields): KubeObject =>
    objectOf(SERVICE, { metadata: { namespace }, spec });

/** The allocated specification, and the causes of a refusal. */
function claimed(given: Fields, at: Surroundings = {}) {
  const { others = [], own = [], namespace = "own" } = at;
  const { random = 0, before, network = NETWORK } = at;
  const service = withDefaults(SERVICE, { metadata: { namespace }, spec: given });
  const claims = {
    otherObjects: () => [...others.map(inNamespace("other")), ...own.map(inNamespace(namespace))],
    network,
    random: () => random,
  };
  const current = before === undefined ? undefined : objectOf(SERVICE, { spec: before });
  const causes = SERVICE.strategy.claim?.(service, current, claims) ?? [];
  return { spec: service["spec"], causes: printCauses(causes) };
}

const addressesUpTo = (last: number) =>
  Array.from({ length: last }, (_, index) => ({ clusterIP: `10.96.0.${String(index + 1)}` }));
const INVALID_ADDRESS = (address: string) =>
  `spec.clusterIPs: Invalid value: ["${address}"]: failed to allocate IP ${address}`;

test.each<{
  name: string;
  given: Fields;
  at?: Surroundings;
  address?: unknown;
  causes?: readonly string[];
}>([
  { name: "the first that is not reserved", given: {}, address: "10.96.0.2" },
  { name: "a random address", given: {}, at: { random: 0.5 }, address: "10.96.0.8" },
  {
    name: "the address after the reserved address",
    given: {},
    at: { random: 9 / 14 },
    address: "10.96.0.11",
  },
  { name: "the last", given: {}, at: { random: 0.99 }, address: "10.96.0.14" },
  {
    name: "the first address when the last is in use",
    given: {},
    at: { random: 0.99, others: [{ clusterIP: "10.96.0.14" }] },
    address: "10.96.0.2",
  },
  {
    name: "the last that is free",
    given: {},
    at: { others: addressesUpTo(13) },
    address: "10.96.0.14",
  },
  {
    name: "no address if all are in use",
    given: {},
    at: { others: addressesUpTo(14) },
    causes: [`${INVALID_ADDRESS("")}: no address of ${NETWORK} is free`],
  },
  {
    name: "an address above the range for explicit requests",
    given: {},
    at: { network: "10.96.0.0/16" },
    address: "10.96.1.1",
  },
  {
    name: "an address above a sixteenth of a smaller network",
    given: {},
    at: { network: "10.96.0.0/23" },
    address: "10.96.0.33",
  },
  {
    name: "an address for explicit requests if all others are in use",
    given: {},
    at: {
      network: "10.96.0.0/27",
      random: 0.99,
      others: addressesUpTo(30).slice(16),
    },
    address: "10.96.0.2",
  },
  { name: "the requested address", given: { clusterIP: "10.96.0.5" }, address: "10.96.0.5" },
  {
    name: "the last address of the network on request",
    given: { clusterIP: "10.96.0.14" },
    address: "10.96.0.14",
  },
  {
    name: "no address that another Service uses",
    given: { clusterIP: "10.96.0.5" },
    at: { others: [{ clusterIP: "10.96.0.5" }] },
    address: "10.96.0.5",
    causes: [`${INVALID_ADDRESS("10.96.0.5")}: provided IP is already allocated`],
  },
  {
    name: "no reserved address",
    given: { clusterIP: "10.96.0.10" },
    address: "10.96.0.10",
    causes: [`${INVALID_ADDRESS("10.96.0.10")}: provided IP is already allocated`],
  },
  {
    name: "no address below the network",
    given: { clusterIP: "10.96.0.0" },
    address: "10.96.0.0",
    causes: [`${INVALID_ADDRESS("10.96.0.0")}: the range of valid addresses is ${NETWORK}`],
  },
  {
    name: "no address above the network",
    given: { clusterIP: "10.96.0.15" },
    address: "10.96.0.15",
    causes: [`${INVALID_ADDRESS("10.96.0.15")}: the range of valid addresses is ${NETWORK}`],
  },
  {
    name: "its stored address even outside the network",
    given: { clusterIP: "10.1.1.1" },
    at: { before: { clusterIP: "10.1.1.1" } },
    address: "10.1.1.1",
  },
  { name: "no address if it is headless", given: { clusterIP: "None" }, address: "None" },
  { name: "no address as an ExternalName", given: { type: "ExternalName" } },
])("a Service gets $name", ({ given, at, address, causes = [] }) => {
  const outcome = claimed(given, at);
  expect(outcome.causes).toEqual(causes);
  expect(outcome.spec).toHaveProperty("type");
  expect((outcome.spec as Fields)["clusterIP"]).toBe(address);
});

test("adds an assigned address to the list of addresses", () => {
  expect(claimed({}).spec).toMatchObject({ clusterIP: "10.96.0.2", clusterIPs: ["10.96.0.2"] });
});

const BUSY = [{ clusterIP: "10.96.0.3", ports: [{ nodePort: 30_086, protocol: "TCP" }] }];
const asked = (nodePort: number, protocol = "TCP") => ({ port: 80, protocol, nodePort });
const allPorts = {
  ports: Array.from({ length: 2768 }, (_, index) => ({
    nodePort: 30_000 + index,
    protocol: "TCP",
  })),
};

test.each<{
  name: string;
  given: readonly Fields[];
  type?: string;
  at?: Surroundings;
  want: readonly unknown[];
  causes?: readonly string[];
}>([
  {
    name: "assigns the first port above the range for explicit requests",
    given: [{ port: 80 }],
    want: [30_086],
  },
  {
    name: "assigns the last port at random",
    given: [{ port: 80 }],
    at: { random: 0.9999 },
    want: [32_767],
  },
  {
    name: "assigns the first free port",
    given: [{ port: 80 }],
    at: { others: BUSY },
    want: [30_087],
  },
  {
    name: "assigns a separate port to each Service port",
    given: [{ port: 80 }, { port: 81 }],
    want: [30_086, 30_087],
  },
  {
    name: "assigns the same port for another protocol",
    given: [{ port: 53, protocol: "UDP" }],
    at: { others: BUSY },
    want: [30_086],
  },
  {
    name: "assigns a port for explicit requests if all others are in use",
    given: [{ port: 80 }],
    at: { others: [{ ports: allPorts.ports.slice(86) }] },
    want: [30_000],
  },
  {
    name: "assigns the requested ports",
    given: [asked(32_767), asked(30_000, "UDP")],
    want: [32_767, 30_000],
  },
  {
    name: "rejects ports out of range",
    given: [asked(29_999), { ...asked(32_768), port: 81 }],
    want: [29_999, 32_768],
    causes: [29_999, 32_768].map(
      (port, index) =>
        `spec.ports[${String(index)}].nodePort: Invalid value: ${String(port)}: provided port is not in the valid range. The range of valid ports is 30000-32767`,
    ),
  },
  {
    name: "rejects a port that another Service uses",
    given: [asked(30_086)],
    at: { others: BUSY },
    want: [30_086],
    causes: ["spec.ports[0].nodePort: Invalid value: 30086: provided port is already allocated"],
  },
  {
    name: "rejects a duplicate port",
    given: [asked(30_005), { ...asked(30_005), port: 81 }],
    want: [30_005, 30_005],
    causes: ["spec.ports[1].nodePort: Invalid value: 30005: provided port is already allocated"],
  },
  {
    name: "retains the stored port",
    given: [{ port: 81 }, { port: 80 }],
    at: { before: { ports: [asked(30_007)] } },
    want: [30_086, 30_007],
  },
  {
    name: "retains the stored port even out of range",
    given: [asked(29_000)],
    at: { before: { ports: [asked(29_000)] } },
    want: [29_000],
  },
  {
    name: "assigns no port if all are in use",
    given: [{ port: 80 }, { port: 81 }, { port: 53, protocol: "UDP" }],
    at: { others: [allPorts] },
    want: [undefined, undefined, 30_086],
    causes: [0, 1].map(
      (index) =>
        `spec.ports[${String(index)}].nodePort: Invalid value: 0: no port of the node is free`,
    ),
  },
  {
    name: "assigns no port to a ClusterIP Service",
    given: [{ port: 80 }],
    type: "ClusterIP",
    want: [undefined],
  },
  {
    name: "assigns a port to a LoadBalancer Service",
    given: [{ port: 80 }],
    type: "LoadBalancer",
    want: [30_086],
  },
])("node ports: $name", ({ given, type = "NodePort", at, want, causes = [] }) => {
  const outcome = claimed({ type, ports: given }, at);
  expect((outcome.spec as { ports: Fields[] }).ports.map(({ nodePort }) => nodePort)).toEqual(want);
  expect(outcome.causes).toEqual(causes);
});

const somePorts = (count: number, protocol = "TCP", first = 30_100): Fields => ({
  ports: Array.from({ length: count }, (_none, index) => ({ nodePort: first + index, protocol })),
});
const SHARE =
  "Forbidden: namespace own may have 256 of the 2768 TCP ports of the node; delete Services of this namespace";

describe("the share of a namespace", () => {
  const given = { type: "NodePort", ports: [{ port: 80 }, { port: 81 }] };

  test.each<{ name: string; at: Surroundings; causes: readonly string[] }>([
    { name: "allows its last node ports", at: { own: [somePorts(254)] }, causes: [] },
    {
      name: "refuses the first node port beyond it",
      at: { own: [somePorts(255)] },
      causes: [`spec.ports[1].nodePort: ${SHARE}`],
    },
    {
      name: "refuses with one cause",
      at: { own: [somePorts(200), somePorts(56, "TCP", 31_000)] },
      causes: [`spec.ports[0].nodePort: ${SHARE}`],
    },
    {
      name: "does not count other protocols and namespaces",
      at: { own: [somePorts(256, "UDP")], others: [somePorts(2000)] },
      causes: [],
    },
    {
      name: "does not apply to a namespace of the system",
      at: { namespace: "kube-system", own: [somePorts(2000)] },
      causes: [],
    },
    {
      name: "does not apply to node ports that the Service has",
      at: {
        own: [somePorts(400)],
        before: {
          ports: [80, 81].map((port) => ({ port, protocol: "TCP", nodePort: port + 32_000 })),
        },
      },
      causes: [],
    },
  ])("$name", ({ at, causes }) => {
    expect(claimed(given, at).causes).toEqual(causes);
  });

  test("refuses requested node ports beyond it", () => {
    const ports = [{ port: 80, protocol: "TCP", nodePort: 30_005 }];
    expect(claimed({ type: "NodePort", ports }, { own: [somePorts(256)] }).causes).toEqual([
      `spec.ports[0].nodePort: ${SHARE}`,
    ]);
  });

  test("leaves node ports and addresses for the system", () => {
    const otherObjects = () =>
      Array.from({ length: 10 }, (_none, index) => {
        const spec = { ...somePorts(256, "TCP", 30_000 + index * 256), clusterIP: "None" };
        return inNamespace(`tenant-${String(index)}`)(spec);
      });
    const claim = (namespace: string) => {
      const service = withDefaults(SERVICE, { metadata: { namespace }, spec: given });
      const context = { otherObjects, network: "10.96.0.0/16", random: () => 0 };
      return printCauses(SERVICE.strategy.claim?.(service, undefined, context) ?? []);
    };
    expect(claim("own")).toEqual([
      "spec.ports[0].nodePort: Forbidden: the namespaces of users have used the 2512 TCP ports of the node that they may have together",
    ]);
    expect(claim("patchbay")).toEqual([]);
  });

  test.each([
    { network: "10.96.0.0/24", count: 63, causes: 0 },
    { network: "10.96.0.0/24", count: 64, causes: 1 },
    { network: "10.96.0.0/20", count: 510, causes: 0 },
    { network: "10.96.0.0/20", count: 511, causes: 1 },
    { network: "10.96.0.0/16", count: 4999, causes: 0 },
    { network: "10.96.0.0/16", count: 5000, causes: 1 },
  ])("of $network: $count addresses leave $causes causes", ({ network, count, causes }) => {
    const own = Array.from({ length: count }, (_none, index) => ({
      clusterIP: `10.96.${String(Math.floor(index / 200))}.${String(20 + (index % 200))}`,
    }));
    const outcome = claimed({}, { own, network });
    expect(outcome.causes).toHaveLength(causes);
    const reason = "spec.clusterIPs: Forbidden: namespace own may have";
    expect(outcome.causes.every((cause) => cause.startsWith(reason))).toBe(true);
  });
});
