// SPDX-License-Identifier: Apache-2.0
import type { Endpoints, Pod, Service } from "@patchbay/api/kubernetes";
import { describe, expect, test } from "vitest";
import { aPod, aService, aSlice } from "../testing/objects.ts";
import { planEndpoints, buildSlices } from "./plan.ts";

const NOT_READY = { conditions: [{ type: "Ready", status: "False" }] } as const;
const GOING = { deletionTimestamp: "2026-01-01T00:00:00Z" };

function madeFor(service: Service, ...pods: readonly Pod[]): Endpoints | undefined {
  return planEndpoints(service, buildSlices(service, pods), undefined)?.object;
}

describe("Endpoints", () => {
  test("match those of a cluster: ready and not ready pods, without terminating pods", () => {
    const service = aService({}, { labels: { team: "a" } });
    const pods = [
      aPod("c", "10.88.0.7", { status: NOT_READY }),
      aPod("b", "10.88.0.6"),
      aPod("a", "10.88.0.5", { spec: { hostname: "vm1", subdomain: "web" } }),
      aPod("d", "10.88.0.8", { metadata: GOING }),
    ];
    const of = (name: string) => ({ kind: "Pod", namespace: "blue", name, uid: `${name}-uid` });
    expect(madeFor(service, ...pods)).toEqual({
      apiVersion: "v1",
      kind: "Endpoints",
      metadata: {
        name: "web",
        namespace: "blue",
        labels: { team: "a" },
        ownerReferences: [
          { apiVersion: "v1", kind: "Service", name: "web", uid: "service-uid", controller: true },
        ],
      },
      subsets: [
        {
          addresses: [
            { ip: "10.88.0.5", hostname: "vm1", nodeName: "node1", targetRef: of("a") },
            { ip: "10.88.0.6", nodeName: "node1", targetRef: of("b") },
          ],
          notReadyAddresses: [{ ip: "10.88.0.7", nodeName: "node1", targetRef: of("c") }],
          ports: [{ port: 8080, protocol: "TCP" }],
        },
      ],
    });
  });

  test("of a Service without pods exist and are empty", () => {
    for (const pods of [[], [aPod("a", "10.88.0.5", { metadata: GOING })]])
      expect(madeFor(aService(), ...pods)).not.toHaveProperty("subsets");
  });

  test("of a Service with only unready pods contain these pods", () => {
    const pod = aPod("a", "10.88.0.5", { spec: { nodeName: undefined }, status: NOT_READY });
    expect(madeFor(aService(), pod)?.subsets).toEqual([
      {
        notReadyAddresses: [
          {
            ip: "10.88.0.5",
            targetRef: { kind: "Pod", namespace: "blue", name: "a", uid: "a-uid" },
          },
        ],
        ports: [{ port: 8080, protocol: "TCP" }],
      },
    ]);
  });

  test("have sorted addresses, and only the fields of the Endpoints type", () => {
    const endpoints = ["10.88.0.6", "10.88.0.5", "10.88.0.7"].map((address) => ({
      addresses: [address],
      conditions: { ready: true },
    }));
    const made = planEndpoints(aService(), [aSlice(endpoints)], undefined)?.object;
    const addresses = made?.subsets?.[0]?.addresses ?? [];
    expect(addresses.map(Object.entries)).toEqual(
      ["10.88.0.5", "10.88.0.6", "10.88.0.7"].map((ip) => [["ip", ip]]),
    );
  });

  test("mark a Service as headless, and have only addresses without ports", () => {
    const made = madeFor(aService({ clusterIP: "None", ports: [] }), aPod("a", "10.88.0.5"));
    expect(made?.metadata.labels).toEqual({ "service.kubernetes.io/headless": "" });
    expect(made?.subsets?.map((subset) => Object.keys(subset))).toEqual([["addresses"]]);
  });

  test("have a subset for each set of ports, with the Service's port names", () => {
    const withPort = (containerPort: number) => ({
      containers: [{ name: "c", image: "i", ports: [{ name: "http", containerPort }] }],
    });
    const service = aService({ ports: [{ name: "web", port: 80, targetPort: "http" }] });
    const pods = [
      aPod("a", "10.88.0.5", { spec: withPort(8080) }),
      aPod("b", "10.88.0.6", { spec: withPort(9090) }),
    ];
    expect(madeFor(service, ...pods)?.subsets).toMatchObject([
      { addresses: [{ ip: "10.88.0.5" }], ports: [{ name: "web", port: 8080 }] },
      { addresses: [{ ip: "10.88.0.6" }], ports: [{ name: "web", port: 9090 }] },
    ]);
  });
});

describe("update of existing Endpoints", () => {
  const service = aService();
  const slices = buildSlices(service, [aPod("a", "10.88.0.5")]);
  const made = planEndpoints(service, slices, undefined)?.object;
  const metadata = { name: "web", ...made?.metadata, resourceVersion: "7" };
  const known: Endpoints = { apiVersion: "v1", kind: "Endpoints", ...made, metadata };

  test("writes nothing if they are correct", () => {
    expect(planEndpoints(service, slices, known)).toBeUndefined();
  });

  test.each([
    { name: "addresses", other: { ...known, subsets: [] } },
    { name: "labels", other: { ...known, metadata: { ...metadata, labels: { a: "b" } } } },
    {
      name: "owner references",
      other: { ...known, metadata: { ...metadata, ownerReferences: [] } },
    },
  ])("is one write if they have other $name, at the observed version", ({ other }) => {
    expect(planEndpoints(service, slices, other)).toEqual({ kind: "update", object: known });
  });
});
