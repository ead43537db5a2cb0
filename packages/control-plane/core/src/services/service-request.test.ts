// SPDX-License-Identifier: Apache-2.0
import { names } from "@patchbay/api";
import type { Service } from "@patchbay/api/kubernetes";
import { describe, expect, test } from "vitest";
import { aNetworkService } from "../testing/network-services.ts";
import { requestedNetworks, trimService, parseServiceRequest } from "./service-request.ts";

const { SERVICE_NETWORK_ANNOTATION: NETWORK, SERVICE_SELECTOR_ANNOTATION: SELECTOR } = names;

function without(annotation: string): Service {
  const service = aNetworkService();
  const left = Object.entries(service.metadata.annotations ?? {}).filter(
    ([name]) => name !== annotation,
  );
  return { ...service, metadata: { ...service.metadata, annotations: Object.fromEntries(left) } };
}

describe("a Service requests", () => {
  test.each([
    { name: "a network in its own namespace", network: "blue", want: "default/blue" },
    { name: "a network in a different namespace", network: " net-1/blue.a ", want: "net-1/blue.a" },
  ])("$name", ({ network, want }) => {
    expect(requestedNetworks(aNetworkService({}, { [NETWORK]: network }))).toEqual([want]);
  });

  test.each([
    { name: "one label", selector: "app=web", want: [["app", "web"]] },
    {
      name: "several labels, one without value",
      selector: "vm.kubevirt.io/name=vm-1, tier=",
      want: [
        ["vm.kubevirt.io/name", "vm-1"],
        ["tier", ""],
      ],
    },
  ])("VMs by $name", ({ selector, want }) => {
    expect(parseServiceRequest(aNetworkService({}, { [SELECTOR]: selector }))).toEqual({
      kind: "requested",
      request: { network: "default/blue", selector: new Map(want as [string, string][]) },
    });
  });

  test.each([
    { name: "no network", service: without(NETWORK) },
    { name: "only a network", service: without(SELECTOR) },
  ])("nothing that names $name", ({ service }) => {
    expect(parseServiceRequest(service)).toEqual({ kind: "none" });
    expect(trimService(service)).toMatchObject({ metadata: { name: "web" }, spec: {} });
  });
});

describe("rejects an invalid request:", () => {
  test.each([
    "",
    "a/b/c",
    "../blue",
    "Blue",
    "blue,red",
    "blue;drop",
    "x".repeat(254),
    `${"a/".repeat(50_000)}b`,
  ])("network %j", (network) => {
    const service = aNetworkService({}, { [NETWORK]: network });
    expect(parseServiceRequest(service)).toMatchObject({ kind: "refused" });
    expect(requestedNetworks(service)).toEqual([]);
  });

  test.each([
    "",
    "app",
    "app==web",
    "app!=web",
    "app in (a,b)",
    "app=web,",
    "app=web,app=db",
    "a/b/c=d",
    "app=we b",
    "app=\u0000",
    `app=${"x".repeat(64)}`,
    Array.from({ length: 33 }, (_none, index) => `a${String(index)}=b`).join(","),
    "a=b,".repeat(50_000),
  ])("selector %j", (selector) => {
    const request = parseServiceRequest(aNetworkService({}, { [SELECTOR]: selector }));
    expect(request).toMatchObject({ kind: "refused" });
    expect(JSON.stringify(request)).not.toContain("web");
  });

  test.each([
    { name: "a pod selector", spec: { selector: { app: "web" } } },
    { name: "a name outside the namespace", spec: { type: "ExternalName" } },
  ])("$name", ({ spec }) => {
    expect(parseServiceRequest(aNetworkService(spec))).toMatchObject({ kind: "refused" });
  });
});

test("caches only the used fields of a Service", () => {
  const service = aNetworkService({ clusterIP: "10.96.0.5" }, { other: "x" });
  const labelled = { ...service, metadata: { ...service.metadata, labels: { a: "b" } } };
  expect(trimService(labelled)).toEqual(aNetworkService());
});
