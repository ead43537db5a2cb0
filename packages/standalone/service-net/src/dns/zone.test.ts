// SPDX-License-Identifier: Apache-2.0
import type { Service } from "@patchbay/api/kubernetes";
import { expect, test } from "vitest";
import { aService, aSlice, RANGES } from "../testing/objects.ts";
import { lookUp, type Zone } from "./zone.ts";

const PORTS = [{ name: "http", port: 80, protocol: "TCP" }];
const SERVICES: readonly Service[] = [
  aService({ ports: PORTS }),
  aService({ clusterIP: "None", ports: PORTS }, { name: "db" }),
  aService({ type: "ExternalName", externalName: "Example.ORG." }, { name: "out" }),
  aService({ clusterIP: "", ports: undefined }, { name: "pending" }),
  aService({ ports: [{ name: "dns", port: 53 }, { port: 80 }] }, { name: "bare" }),
];
const SLICE = aSlice(
  [
    { addresses: ["10.88.0.5"], hostname: "vm1" },
    { addresses: ["10.88.0.6"] },
    { addresses: ["10.88.0.7"], conditions: { ready: false } },
    { addresses: ["127.0.0.1"] },
  ],
  { ports: [{ name: "http", port: 8080, protocol: "TCP" }] },
);
const IPV6 = { addressType: "IPv6" };
const ZONE: Zone = {
  domain: "cluster.local",
  ranges: RANGES,
  findService: (namespace, name) =>
    SERVICES.find(({ metadata }) => metadata.namespace === namespace && metadata.name === name),
  slicesOf: ({ metadata }) =>
    metadata.name === "pending" ? [] : [aSlice([{ addresses: ["fd00::5"] }], IPV6), SLICE],
  hasNamespace: (namespace) => namespace === "blue",
};
const a = (address: string) => ({ type: "A", address });

test.each([
  { name: "web.blue.svc.cluster.local", want: [a("10.96.0.5")] },
  { name: "WEB.Blue.svc.cluster.LOCAL.", want: [a("10.96.0.5")] },
  { name: "db.blue.svc.cluster.local", want: [a("10.88.0.5"), a("10.88.0.6")] },
  { name: "vm1.db.blue.svc.cluster.local", want: [a("10.88.0.5")] },
  { name: "10-88-0-6.db.blue.svc.cluster.local", want: [a("10.88.0.6")] },
  { name: "out.blue.svc.cluster.local", want: [{ type: "CNAME", target: "example.org" }] },
  {
    name: "_http._tcp.web.blue.svc.cluster.local",
    want: [{ type: "SRV", target: "web.blue.svc.cluster.local", port: 80 }],
  },
  {
    name: "_http._tcp.db.blue.svc.cluster.local",
    want: [
      { type: "SRV", target: "vm1.db.blue.svc.cluster.local", port: 8080 },
      { type: "SRV", target: "10-88-0-6.db.blue.svc.cluster.local", port: 8080 },
    ],
  },
  { name: "pending.blue.svc.cluster.local", want: [] },
  {
    name: "_dns._tcp.bare.blue.svc.cluster.local",
    want: [{ type: "SRV", target: "bare.blue.svc.cluster.local", port: 53 }],
  },
  { name: "cluster.local", want: [] },
  { name: "svc.cluster.local", want: [] },
  { name: "blue.svc.cluster.local", want: [] },
])("finds $name", ({ name, want }) => {
  expect(lookUp(name, ZONE)).toEqual({ kind: "found", records: want });
});

test.each([
  "none.blue.svc.cluster.local",
  "web.red.svc.cluster.local",
  "red.svc.cluster.local",
  "vm1.web.blue.svc.cluster.local",
  "vm2.db.blue.svc.cluster.local",
  "10-88-0-7.db.blue.svc.cluster.local",
  "_http._udp.web.blue.svc.cluster.local",
  "_http._tcp.pending.blue.svc.cluster.local",
  "_http.tcp.web.blue.svc.cluster.local",
  "http._tcp.web.blue.svc.cluster.local",
  "xhttp.xtcp.web.blue.svc.cluster.local",
  "x._http._tcp.web.blue.svc.cluster.local",
  "_other._tcp.db.blue.svc.cluster.local",
  "a.b.c.web.blue.svc.cluster.local",
  "pod.cluster.local",
])("%s does not exist, and is not forwarded", (name) => {
  expect(lookUp(name, ZONE)).toEqual({ kind: "missing" });
});

test.each(["example.org", "", ".", "local", "cluster.local.example.org", "xcluster.local"])(
  "%j belongs to another zone",
  (name) => {
    expect(lookUp(name, ZONE)).toEqual({ kind: "foreign" });
  },
);
