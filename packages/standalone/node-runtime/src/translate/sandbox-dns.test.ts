// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { aPod, NODE } from "../testing/pods.ts";
import { toSandboxConfig } from "./sandbox.ts";

const DNS = { server: "10.96.0.10", domain: "cluster.local" };
const SEARCHES = ["ns.svc.cluster.local", "svc.cluster.local", "cluster.local"];
const OF_CLUSTER = { servers: ["10.96.0.10"], searches: SEARCHES, options: ["ndots:5"] };

test.each([
  { name: "usually", spec: {}, want: OF_CLUSTER },
  { name: "with policy ClusterFirst", spec: { dnsPolicy: "ClusterFirst" }, want: OF_CLUSTER },
  {
    name: "in the host network with policy ClusterFirstWithHostNet",
    spec: { hostNetwork: true, dnsPolicy: "ClusterFirstWithHostNet" },
    want: OF_CLUSTER,
  },
  { name: "in the node's network", spec: { hostNetwork: true }, want: undefined },
  { name: "with policy Default", spec: { dnsPolicy: "Default" }, want: undefined },
  {
    name: "with policy None",
    spec: { dnsPolicy: "None", dnsConfig: { nameservers: ["192.0.2.53"], searches: ["a"] } },
    want: { servers: ["192.0.2.53"], searches: ["a"], options: [] },
  },
  {
    name: "without options that have no name",
    spec: { dnsConfig: { options: [{ value: "2" }, { name: "" }, { name: "rotate" }] } },
    want: { ...OF_CLUSTER, options: ["ndots:5", "rotate"] },
  },
  {
    name: "with additional servers, search domains and options",
    spec: {
      dnsConfig: {
        nameservers: ["192.0.2.53"],
        searches: ["a", "cluster.local"],
        options: [{ name: "ndots", value: "2" }, { name: "edns0" }],
      },
    },
    want: {
      servers: ["10.96.0.10", "192.0.2.53"],
      searches: [...SEARCHES, "a"],
      options: ["ndots:2", "edns0"],
    },
  },
])("a pod resolves names $name", ({ spec, want }) => {
  expect(toSandboxConfig(aPod(spec), 0, { ...NODE, dns: DNS }).dns).toEqual(want);
});

test("a pod uses the node's resolvers if there is no cluster DNS", () => {
  expect(toSandboxConfig(aPod({}), 0, NODE).dns).toBeUndefined();
});
