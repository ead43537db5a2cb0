// SPDX-License-Identifier: Apache-2.0
// The machine's node object: readiness and description.
import { hostname } from "node:os";
import type { KubeNode } from "@patchbay/api/kubernetes";
import { eventually } from "@patchbay/support";
import { expect, test } from "vitest";
import { machine } from "../machine.ts";

/** A lease is renewed every ten seconds. */
const RENEWAL_MS = 15_000;
const NODE = hostname().toLowerCase();

function getNode(): KubeNode {
  const node = machine.find("node", NODE);
  if (node === undefined) throw new Error(`no node ${NODE}`);
  return node;
}

function renewTime(): string {
  return machine.find("lease", NODE)?.spec?.renewTime ?? "";
}

test("the node is Ready, describes itself, and renews its lease", async () => {
  const node = getNode();
  expect(machine.kubectl("get", "node", NODE, "--no-headers")).toMatch(/ Ready /);
  expect(node.status?.nodeInfo).toMatchObject({ operatingSystem: "linux" });
  expect(node.metadata.labels).toMatchObject({
    "kubernetes.io/arch": node.status?.nodeInfo?.architecture,
    "kubernetes.io/os": "linux",
    "kubernetes.io/hostname": NODE,
    "kubevirt.io/schedulable": "true",
  });
  const before = renewTime();
  await eventually(() => renewTime() > before, { withinMs: RENEWAL_MS });
});

test("restores a removed label", async () => {
  machine.patch("node", NODE, { metadata: { labels: { "kubernetes.io/arch": null } } });
  await eventually(() => getNode().metadata.labels?.["kubernetes.io/arch"] !== undefined, {
    withinMs: RENEWAL_MS,
  });
});

test("a pod that requires another kind of node reports why it waits", async () => {
  machine.apply({
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "picky" },
    spec: { nodeSelector: { rack: "7" }, containers: [{ name: "c", image: "virt-launcher" }] },
  });
  const why = (): string | undefined =>
    machine.find("pod", "picky")?.status?.conditions?.find(({ type }) => type === "PodScheduled")
      ?.message;
  const reported =
    "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector (rack=7).";
  await eventually(() => why() === reported, { withinMs: 10_000 });
  machine.startDelete("pod", "picky", 0);
});

test("the KubeVirt object reports deployed and its version", async () => {
  const read = (path: string): string =>
    machine.kubectl("get", "kubevirt", "kubevirt", "-n", "patchbay", "-o", `jsonpath=${path}`);
  const available = '{.status.conditions[?(@.type=="Available")].status}';
  await eventually(() => read(available) === "True", { withinMs: 30_000 });
  expect(read("{.status.phase}")).toBe("Deployed");
  expect(read("{.status.observedKubeVirtVersion}")).toMatch(/^v\d+\.\d+\.\d+/);
});

test("the API server's port serves the metrics of all services", () => {
  const lines = machine.kubectl("get", "--raw", "/metrics").split("\n");
  const services = lines.filter((line) => line.startsWith("patchbay_service_up{"));
  expect(services).toEqual(
    ["net-agent", "node-runtime", "service-net", "virt-api", "virt-controller", "virt-handler"].map(
      (service) => `patchbay_service_up{service="${service}"} 1`,
    ),
  );
  const requests = lines.filter((line) => line.startsWith("patchbay_api_requests_total{"));
  expect(requests.some((line) => line.includes('service="virt-handler"'))).toBe(true);
});
