// SPDX-License-Identifier: Apache-2.0
import type { Endpoint, EndpointSlice, Service } from "@patchbay/api/kubernetes";
import { describe, expect, test } from "vitest";
import { aService, aSlice, RANGES } from "../testing/objects.ts";
import {
  dropDuplicates,
  createHostPortLookup,
  dropHostPorts,
  limitForwards,
  listForwards,
  type Forward,
} from "./forwards.ts";
import { addressAt, containsAddress, parseNetwork } from "./network.ts";

const ONE: Endpoint = { addresses: ["10.88.0.5"] };
const FORWARD = {
  name: "blue/web:80/tcp",
  protocol: "tcp",
  address: "10.96.0.5",
  port: 80,
  endpoints: ["10.88.0.5 . 8080"],
  isSticky: false,
};

function forwards(spec: Partial<Service["spec"]>, ...slices: readonly EndpointSlice[]) {
  return listForwards(aService(spec), slices, RANGES);
}

const GOING = { ready: false, serving: true, terminating: true };

test.each([
  { name: "a cluster IP", spec: {}, endpoints: [ONE], want: [FORWARD] },
  {
    name: "a port of the node",
    spec: { type: "NodePort", ports: [{ port: 80, nodePort: 30_080 }] },
    endpoints: [ONE],
    want: [{ ...FORWARD, nodePort: 30_080 }],
  },
  {
    name: "the node port of a LoadBalancer",
    spec: { type: "LoadBalancer", ports: [{ port: 80, nodePort: 30_080 }] },
    endpoints: [ONE],
    want: [{ ...FORWARD, nodePort: 30_080 }],
  },
  {
    name: "each client to one endpoint",
    spec: { sessionAffinity: "ClientIP" },
    endpoints: [ONE],
    want: [{ ...FORWARD, isSticky: true }],
  },
  {
    name: "to ready endpoints only",
    spec: {},
    endpoints: [ONE, { addresses: ["10.88.0.6"], conditions: { ready: false } }],
    want: [FORWARD],
  },
  {
    name: "to terminating endpoints if no others exist",
    spec: {},
    endpoints: [{ addresses: ["10.88.0.5"], conditions: GOING }],
    want: [FORWARD],
  },
  {
    name: "to no terminating endpoint if a ready endpoint exists",
    spec: {},
    endpoints: [ONE, { addresses: ["10.88.0.6"], conditions: GOING }],
    want: [FORWARD],
  },
  { name: "nothing without endpoints", spec: {}, endpoints: [], want: [] },
  {
    name: "nothing for a headless Service",
    spec: { clusterIP: "None" },
    endpoints: [ONE],
    want: [],
  },
  {
    name: "nothing for an ExternalName Service",
    spec: { type: "ExternalName" },
    endpoints: [ONE],
    want: [],
  },
  {
    name: "no address outside the Service network",
    spec: { clusterIP: "192.0.2.1" },
    endpoints: [ONE],
    want: [],
  },
  {
    name: "no Service with the name server's address",
    spec: { clusterIP: RANGES.dns },
    endpoints: [ONE],
    want: [],
  },
  { name: "no invalid address", spec: { clusterIP: "10.96.0.5;" }, endpoints: [ONE], want: [] },
  ...[29_999, 32_768, 70_000].map((nodePort) => ({
    name: `no port of the node outside of their range: ${String(nodePort)}`,
    spec: { type: "NodePort", ports: [{ port: 80, nodePort }] },
    endpoints: [ONE],
    want: [FORWARD],
  })),
  ...[30_000, 32_767].map((nodePort) => ({
    name: `a node port at the limit of the range: ${String(nodePort)}`,
    spec: { type: "NodePort", ports: [{ port: 80, nodePort }] },
    endpoints: [ONE],
    want: [{ ...FORWARD, nodePort }],
  })),
  {
    name: "no node port of a ClusterIP Service",
    spec: { ports: [{ port: 80, nodePort: 30_080 }] },
    endpoints: [ONE],
    want: [FORWARD],
  },
  {
    name: "valid port numbers only",
    spec: { ports: [1, 65_535, 0, 65_536, 80.5].map((port) => ({ port })) },
    endpoints: [ONE],
    want: [1, 65_535].map((port) => ({
      ...FORWARD,
      name: `blue/web:${String(port)}/tcp`,
      port,
    })),
  },
  {
    name: "no protocol but TCP and UDP",
    spec: { ports: [{ port: 80, protocol: "SCTP" }] },
    endpoints: [ONE],
    want: [],
  },
  { name: "nothing of a Service without ports", spec: { ports: [] }, endpoints: [ONE], want: [] },
  {
    name: "to no endpoint that is neither ready nor terminating",
    spec: {},
    endpoints: [{ addresses: ["10.88.0.5"], conditions: { ready: false, serving: true } }],
    want: [],
  },
  {
    name: "to no terminating endpoint that stopped serving",
    spec: {},
    endpoints: [{ addresses: ["10.88.0.5"], conditions: { ...GOING, serving: false } }],
    want: [],
  },
  {
    name: "to the first address of an endpoint",
    spec: {},
    endpoints: [{ addresses: ["10.88.0.5", "10.88.0.6"] }, { addresses: [] }],
    want: [FORWARD],
  },
])("forwards $name", ({ spec, endpoints, want }) => {
  expect(forwards(spec, aSlice(endpoints))).toEqual(want);
});

test.each([
  "127.0.0.1",
  "169.254.169.254",
  "0.0.0.0",
  "224.0.0.1",
  "255.255.255.255",
  "10.96.0.5",
  "10.88.0.5 . 80, 1 : 192.0.2.1",
  "fd00::1",
  "",
])("never forwards to %j", (address) => {
  expect(forwards({}, aSlice([{ addresses: [address] }]))).toEqual([]);
});

test.each([
  { name: "of another family", change: { addressType: "IPv6" } },
  { name: "for another port", change: { ports: [{ name: "other", port: 8080 }] } },
  { name: "for another protocol", change: { ports: [{ name: "", port: 8080, protocol: "UDP" }] } },
  { name: "with an invalid port", change: { ports: [{ name: "", port: 70_000 }] } },
  { name: "without ports", change: { ports: [] } },
])("ignores a slice $name", ({ change }) => {
  expect(forwards({}, aSlice([ONE], change))).toEqual([]);
});

test("UDP is forwarded to the endpoints' UDP port", () => {
  const spec = { ports: [{ port: 53, protocol: "UDP" }] };
  const slice = aSlice([ONE], { ports: [{ name: "", port: 5353, protocol: "UDP" }] });
  expect(forwards(spec, slice)).toEqual([
    {
      ...FORWARD,
      name: "blue/web:53/udp",
      protocol: "udp",
      port: 53,
      endpoints: ["10.88.0.5 . 5353"],
    },
  ]);
});

test("a slice without endpoints or ports forwards nothing", () => {
  expect(forwards({}, aSlice([], { endpoints: undefined }))).toEqual([]);
  expect(forwards({}, aSlice([ONE], { ports: undefined }))).toEqual([]);
});

test("merges the slices of a Service, with each address once", () => {
  const other = aSlice([ONE, { addresses: ["10.88.0.4"] }]);
  expect(forwards({}, aSlice([ONE]), other)).toMatchObject([
    { endpoints: ["10.88.0.4 . 8080", "10.88.0.5 . 8080"] },
  ]);
});

test("the first Service wins a duplicate address and port", () => {
  const [first] = forwards({}, aSlice([ONE]));
  const second = { ...FORWARD, name: "red/web:80/tcp", protocol: "tcp" } as const;
  expect(dropDuplicates([second, ...(first === undefined ? [] : [first])])).toEqual([first]);
});

test.each([
  { name: "another port of the node", change: { nodePort: 30_081 }, isKept: true },
  { name: "the same port of the node", change: { nodePort: 30_080 }, isKept: false },
  {
    name: "the same node port for UDP",
    change: { nodePort: 30_080, protocol: "udp" },
    isKept: true,
  },
  { name: "the same address and port", change: { address: FORWARD.address }, isKept: false },
  { name: "none", change: {}, isKept: true },
] as const)("a second Service with $name is forwarded: $isKept", ({ change, isKept }) => {
  const first: Forward = { ...FORWARD, protocol: "tcp", nodePort: 30_080 };
  const second: Forward = {
    ...FORWARD,
    protocol: "tcp",
    name: "c",
    address: "10.96.0.6",
    ...change,
  };
  const third: Forward = { ...FORWARD, protocol: "tcp", name: "d", port: 81 };
  const kept = dropDuplicates([third, first, second]);
  expect(kept).toEqual(isKept ? [first, second, third] : [first, third]);
});

test("a port has at most 256 endpoints", () => {
  const endpoints = Array.from({ length: 300 }, (_none, index) => ({
    addresses: [`10.88.${String(1 + Math.floor(index / 250))}.${String(index % 250)}`],
  }));
  expect(forwards({}, aSlice(endpoints))[0]?.endpoints).toHaveLength(256);
});

describe("the limits of map elements", () => {
  /** A Service with one port, which needs that number of elements. */
  const aForward = (service: string, elements: number, change: Partial<Forward> = {}): Forward => ({
    ...FORWARD,
    protocol: "tcp",
    name: `${service}:80/tcp`,
    endpoints: Array.from({ length: elements - 1 }, (_none, index) => String(index)),
    ...change,
  });
  const leftOut = (...given: readonly Forward[]) =>
    limitForwards(given).leftOut.map(({ service }) => service);

  test.each([
    { name: "at the limit", given: [aForward("blue/a", 20_000)], want: [] },
    { name: "beyond the limit", given: [aForward("blue/a", 20_001)], want: ["blue/a"] },
    {
      name: "with as many elements for a node port",
      given: [aForward("blue/a", 10_001, { nodePort: 30_000 })],
      want: ["blue/a"],
    },
  ])("for a Service $name", ({ given, want }) => {
    expect(leftOut(...given)).toEqual(want);
  });

  test("for a namespace do not affect another namespace", () => {
    const many = ["a", "b", "c", "d", "e"].map((name) => aForward(`blue/${name}`, 20_000));
    const given = [...many, aForward("blue/f", 2), aForward("red/a", 2)];
    expect(leftOut(...given)).toEqual(["blue/f"]);
    expect([...limitForwards(given).forwardsByService.keys()].at(-1)).toBe("red/a");
  });
});

test("a deleted Service forwards nothing", () => {
  const service = aService({}, { deletionTimestamp: "2026-01-01T00:00:00Z" });
  expect(listForwards(service, [aSlice([ONE])], RANGES)).toEqual([]);
});

test.each([
  ["10.96.0.0/16", 10, "10.96.0.10"],
  ["172.30.0.0/16", 65_535, "172.30.255.255"],
  ["10.0.0.0/8", 1, "10.0.0.1"],
  ["10.96.0.0/30", 2, "10.96.0.2"],
])("address of %s at %i", (text, distance, want) => {
  const network = parseNetwork(text);
  expect(network === undefined ? "" : addressAt(network, distance)).toBe(want);
  expect(network !== undefined && containsAddress(network, want)).toBe(true);
});

test.each([
  "10.96.0.1/16",
  "10.0.0.0/7",
  "10.96.0.0/31",
  "10.96.0.0",
  "10.96.0.0/33",
  "10.0.0.0/07",
  "a/16",
  "10.96.0.0/16 ",
])("%j is not a network", (text) => {
  expect(parseNetwork(text)).toBeUndefined();
});

test("an invalid address is in no network", () => {
  expect(containsAddress(RANGES.services, "text")).toBe(false);
});

describe("a node port on which a process of the host listens", () => {
  const forward: Forward = { ...FORWARD, protocol: "tcp", nodePort: 30_080 };
  const listening = { protocol: "tcp", port: 30_080, isLoopback: false } as const;

  test("is not forwarded and reported, while the cluster IP is forwarded", () => {
    const outcome = dropHostPorts([forward], [listening]);
    expect(outcome.forwards).toEqual([FORWARD]);
    expect(outcome.leftOut).toEqual([
      {
        service: "blue/web",
        part: "node port 30080/tcp",
        reason: expect.stringContaining("a process of the node listens on this port") as string,
      },
    ]);
  });

  test.each([
    { name: "of another number", change: { port: 30_081 } },
    { name: "of another protocol", change: { protocol: "udp" as const } },
    { name: "of the loopback", change: { isLoopback: true } },
  ])("is forwarded beside a port $name", ({ change }) => {
    const outcome = dropHostPorts([forward], [{ ...listening, ...change }]);
    expect(outcome).toEqual({ forwards: [forward], leftOut: [] });
  });
});

test("reads listening ports only for new node ports, and again after a while", async () => {
  let nowMs = 0;
  let reads = 0;
  const find = createHostPortLookup({ monotonicMs: () => nowMs }, () => {
    reads += 1;
    return Promise.resolve([]);
  });
  const counts: number[] = [];
  const look = async (...nodePorts: readonly number[]): Promise<void> => {
    await find(nodePorts);
    counts.push(reads);
  };
  await look();
  await look(30_001);
  await look(30_001);
  await look(30_001, 30_002);
  await look(30_002);
  nowMs = 30_000;
  await look(30_002);
  await look();
  expect(counts).toEqual([0, 1, 1, 2, 2, 3, 3]);
});
