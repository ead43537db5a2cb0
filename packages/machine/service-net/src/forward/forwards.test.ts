// SPDX-License-Identifier: Apache-2.0
import type { Endpoint, EndpointSlice, Service } from "@patchbay/api";
import { expect, test } from "vitest";
import { aService, aSlice, RANGES } from "../testing/objects.ts";
import { distinct, forwardsOf } from "./forwards.ts";
import { addressAt, contains, parseNetwork } from "./network.ts";

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
  return forwardsOf(aService(spec), slices, RANGES);
}

const GOING = { ready: false, serving: true, terminating: true };

test.each([
  { name: "an address", spec: {}, endpoints: [ONE], want: [FORWARD] },
  {
    name: "a port of the node",
    spec: { type: "NodePort", ports: [{ port: 80, nodePort: 30_080 }] },
    endpoints: [ONE],
    want: [{ ...FORWARD, nodePort: 30_080 }],
  },
  {
    name: "the port of a balancer that is not there",
    spec: { type: "LoadBalancer", ports: [{ port: 80, nodePort: 30_080 }] },
    endpoints: [ONE],
    want: [{ ...FORWARD, nodePort: 30_080 }],
  },
  {
    name: "one endpoint for each client",
    spec: { sessionAffinity: "ClientIP" },
    endpoints: [ONE],
    want: [{ ...FORWARD, isSticky: true }],
  },
  {
    name: "what is ready",
    spec: {},
    endpoints: [ONE, { addresses: ["10.88.0.6"], conditions: { ready: false } }],
    want: [FORWARD],
  },
  {
    name: "what is about to go, where nothing else is left",
    spec: {},
    endpoints: [{ addresses: ["10.88.0.5"], conditions: GOING }],
    want: [FORWARD],
  },
  {
    name: "not what is about to go, where something else is there",
    spec: {},
    endpoints: [ONE, { addresses: ["10.88.0.6"], conditions: GOING }],
    want: [FORWARD],
  },
  { name: "nothing without endpoints", spec: {}, endpoints: [], want: [] },
  { name: "nothing of a headless one", spec: { clusterIP: "None" }, endpoints: [ONE], want: [] },
  { name: "nothing of a name outside", spec: { type: "ExternalName" }, endpoints: [ONE], want: [] },
  {
    name: "no address of others, whoever wrote it",
    spec: { clusterIP: "192.0.2.1" },
    endpoints: [ONE],
    want: [],
  },
  {
    name: "not the name server's address",
    spec: { clusterIP: RANGES.dns },
    endpoints: [ONE],
    want: [],
  },
  { name: "no text as an address", spec: { clusterIP: "10.96.0.5;" }, endpoints: [ONE], want: [] },
  {
    name: "no port of the node that is none",
    spec: { type: "NodePort", ports: [{ port: 80, nodePort: 22 }] },
    endpoints: [ONE],
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
])("nothing is forwarded to %j, whoever wrote it", (address) => {
  expect(forwards({}, aSlice([{ addresses: [address] }]))).toEqual([]);
});

test.each([
  { name: "of another family", change: { addressType: "IPv6" } },
  { name: "for another port", change: { ports: [{ name: "other", port: 8080 }] } },
  { name: "for another protocol", change: { ports: [{ name: "", port: 8080, protocol: "UDP" }] } },
  { name: "with a port that is none", change: { ports: [{ name: "", port: 70_000 }] } },
  { name: "without ports", change: { ports: [] } },
])("a slice $name is not meant", ({ change }) => {
  expect(forwards({}, aSlice([ONE], change))).toEqual([]);
});

test("slices of one Service are taken together, each address once", () => {
  const other = aSlice([ONE, { addresses: ["10.88.0.4"] }]);
  expect(forwards({}, aSlice([ONE]), other)).toMatchObject([
    { endpoints: ["10.88.0.4 . 8080", "10.88.0.5 . 8080"] },
  ]);
});

test("what two have is the first one's", () => {
  const [first] = forwards({}, aSlice([ONE]));
  const second = { ...FORWARD, name: "red/web:80/tcp", protocol: "tcp" } as const;
  expect(distinct([second, ...(first === undefined ? [] : [first])])).toEqual([first]);
});

test("a deleted Service leads nowhere", () => {
  const service = aService({}, { deletionTimestamp: "2026-01-01T00:00:00Z" });
  expect(forwardsOf(service, [aSlice([ONE])], RANGES)).toEqual([]);
});

test.each([
  ["10.96.0.0/16", 10, "10.96.0.10"],
  ["172.30.0.0/16", 65_535, "172.30.255.255"],
])("address of %s at %i", (text, distance, want) => {
  const network = parseNetwork(text);
  expect(network === undefined ? "" : addressAt(network, distance)).toBe(want);
  expect(network !== undefined && contains(network, want)).toBe(true);
});

test.each(["10.96.0.1/16", "10.96.0.0", "10.96.0.0/33", "10.0.0.0/07", "a/16", "10.96.0.0/16 "])(
  "%j is no network",
  (text) => {
    expect(parseNetwork(text)).toBeUndefined();
  },
);
