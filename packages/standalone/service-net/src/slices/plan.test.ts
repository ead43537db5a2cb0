// SPDX-License-Identifier: Apache-2.0
import { SLICE_ENDPOINTS_MAX, type Service } from "@patchbay/api/kubernetes";
import { describe, expect, test } from "vitest";
import { aPod, aService } from "../testing/objects.ts";
import { buildSlices } from "./plan.ts";

const NOT_READY = { conditions: [{ type: "Ready", status: "False" }] } as const;
const GOING = { deletionTimestamp: "2026-01-01T00:00:00Z" };

function addressesOf(service: Service, ...pods: readonly ReturnType<typeof aPod>[]) {
  return buildSlices(service, pods).map(({ ports = [], endpoints = [] }) => [
    ports.map(({ port }) => port),
    endpoints.map(({ addresses, conditions }) => [addresses[0], conditions?.ready]),
  ]);
}

describe("slices", () => {
  test("match those of a cluster", () => {
    const pod = aPod("p", "10.88.0.5", { spec: { hostname: "vm1", subdomain: "web" } });
    expect(buildSlices(aService(), [pod])).toEqual([
      {
        apiVersion: "discovery.k8s.io/v1",
        kind: "EndpointSlice",
        metadata: {
          name: "web-0",
          namespace: "blue",
          labels: {
            "kubernetes.io/service-name": "web",
            "endpointslice.kubernetes.io/managed-by": "service-net.patchbay.io",
          },
          ownerReferences: [
            {
              apiVersion: "v1",
              kind: "Service",
              name: "web",
              uid: "service-uid",
              controller: true,
            },
          ],
        },
        addressType: "IPv4",
        ports: [{ name: "", port: 8080, protocol: "TCP" }],
        endpoints: [
          {
            addresses: ["10.88.0.5"],
            conditions: { ready: true, serving: true, terminating: false },
            hostname: "vm1",
            nodeName: "node1",
            targetRef: { kind: "Pod", namespace: "blue", name: "p", uid: "p-uid" },
          },
        ],
      },
    ]);
  });

  test.each([
    {
      name: "not ready",
      pod: aPod("p", "10.88.0.5", { status: NOT_READY }),
      ready: false,
    },
    { name: "being deleted", pod: aPod("p", "10.88.0.5", { metadata: GOING }), ready: false },
    { name: "ready", pod: aPod("p", "10.88.0.5"), ready: true },
  ])("contain a pod with its readiness: $name", ({ pod, ready }) => {
    expect(addressesOf(aService(), pod)).toEqual([[[8080], [["10.88.0.5", ready]]]]);
  });

  test.each([
    { name: "another's", pod: aPod("p", "10.88.0.5", { metadata: { labels: { app: "db" } } }) },
    {
      name: "in another namespace",
      pod: aPod("p", "10.88.0.5", { metadata: { namespace: "red" } }),
    },
    { name: "without an address", pod: aPod("p", "") },
    { name: "finished", pod: aPod("p", "10.88.0.5", { status: { phase: "Failed" } }) },
    {
      name: "in the host network",
      pod: aPod("p", "10.0.0.1", { spec: { hostNetwork: true } }),
    },
  ])("contain no pod that is $name", ({ pod }) => {
    expect(addressesOf(aService(), pod)).toEqual([]);
  });

  test.each([
    { name: "without selector", spec: { selector: {} } },
    { name: "of type ExternalName", spec: { type: "ExternalName" } },
  ])("are not created for a Service $name", ({ spec }) => {
    expect(addressesOf(aService(spec), aPod("p", "10.88.0.5"))).toEqual([]);
  });

  test("contain unready pods if the Service publishes them", () => {
    const pod = aPod("p", "10.88.0.5", { status: NOT_READY });
    const service = aService({ publishNotReadyAddresses: true });
    expect(addressesOf(service, pod)).toEqual([[[8080], [["10.88.0.5", true]]]]);
  });

  test("separate pods with different named ports, and omit pods without the port", () => {
    const withPort = (containerPort: number) => ({
      containers: [{ name: "c", image: "i", ports: [{ name: "http", containerPort }] }],
    });
    const service = aService({ ports: [{ port: 80, targetPort: "http" }] });
    const pods = [
      aPod("a", "10.88.0.5", { spec: withPort(8080) }),
      aPod("b", "10.88.0.6", { spec: withPort(9090) }),
      aPod("c", "10.88.0.7"),
    ];
    expect(addressesOf(service, ...pods)).toEqual([
      [[8080], [["10.88.0.5", true]]],
      [[9090], [["10.88.0.6", true]]],
    ]);
  });

  test.each([
    {
      name: "another name",
      ports: [{ name: "https", containerPort: 8443 }],
      want: [],
    },
    {
      name: "another protocol",
      ports: [{ name: "http", containerPort: 8080, protocol: "UDP" }],
      want: [],
    },
    {
      name: "that port name after other ports",
      ports: [
        { name: "https", containerPort: 8443 },
        { name: "http", containerPort: 8080, protocol: "UDP" },
        { name: "http", containerPort: 9090 },
      ],
      want: [[[9090], [["10.88.0.5", true]]]],
    },
  ] as const)("resolve a named port in a pod that has one of $name", ({ ports, want }) => {
    const service = aService({ ports: [{ port: 80, targetPort: "http" }] });
    const containers = [{ name: "c", image: "i", ports }];
    expect(addressesOf(service, aPod("p", "10.88.0.5", { spec: { containers } }))).toEqual(want);
  });

  test("use the Service's own port if it has no target port", () => {
    const service = aService({ ports: [{ port: 80 }] });
    expect(addressesOf(service, aPod("p", "10.88.0.5"))).toEqual([[[80], [["10.88.0.5", true]]]]);
  });

  test("of a Service without ports contain only addresses", () => {
    const service = aService({ ports: undefined });
    expect(addressesOf(service, aPod("p", "10.88.0.5"))).toEqual([[[], [["10.88.0.5", true]]]]);
  });

  test.each([
    { name: "all of several labels", labels: { app: "web", tier: "a" }, count: 1 },
    { name: "only one of the selected labels", labels: { app: "web", tier: "b" }, count: 0 },
    { name: "no labels", labels: undefined, count: 0 },
  ])("contain a pod with $name: $count", ({ labels, count }) => {
    const service = aService({ selector: { app: "web", tier: "a" } });
    const pod = aPod("p", "10.88.0.5", { metadata: { labels } });
    expect(buildSlices(service, [pod])).toHaveLength(count);
  });

  test.each([
    { name: "with another Service's subdomain", spec: { hostname: "vm1", subdomain: "db" } },
    { name: "without its own host name", spec: { subdomain: "web" } },
    { name: "without a node", spec: { nodeName: undefined } },
  ])("contain no host name of a pod $name", ({ spec }) => {
    const [slice] = buildSlices(aService(), [aPod("p", "10.88.0.5", { spec })]);
    const [endpoint = {}] = slice?.endpoints ?? [];
    expect(Object.keys(endpoint)).not.toContain("hostname");
    expect(Object.keys(endpoint).includes("nodeName")).toBe(!("nodeName" in spec));
  });

  test.each([
    { name: "no conditions", conditions: undefined, ready: false },
    {
      name: "another condition that holds",
      conditions: [{ type: "Initialized", status: "True" }],
      ready: false,
    },
    {
      name: "a true Ready condition among false conditions",
      conditions: [
        { type: "Ready", status: "True" },
        { type: "Other", status: "False" },
      ],
      ready: true,
    },
  ] as const)("of a pod with $name are ready: $ready", ({ conditions, ready }) => {
    const pod = aPod("p", "10.88.0.5", { status: { conditions } });
    expect(addressesOf(aService(), pod)).toEqual([[[8080], [["10.88.0.5", ready]]]]);
  });

  test("contain no pod without status", () => {
    expect(buildSlices(aService(), [{ ...aPod("p", ""), status: {} }])).toEqual([]);
  });

  test("contain at most the maximum number of endpoints", () => {
    const pods = Array.from({ length: SLICE_ENDPOINTS_MAX + 1 }, (_none, index) =>
      aPod(`p${String(index)}`, `10.88.${String(index >> 8)}.${String(index & 255)}`),
    );
    const slices = buildSlices(aService(), pods);
    expect(slices.map(({ metadata, endpoints = [] }) => [metadata.name, endpoints.length])).toEqual(
      [
        ["web-0", SLICE_ENDPOINTS_MAX],
        ["web-1", 1],
      ],
    );
  });
});
