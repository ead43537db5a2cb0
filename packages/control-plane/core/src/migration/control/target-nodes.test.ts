// SPDX-License-Identifier: Apache-2.0
// Which labels must a target's node have, for a guest's processors?
import { aVmi } from "@patchbay/support";
import { expect, test } from "vitest";
import { aGuestFacts, aMigration } from "../../testing/migration-facts.ts";
import { findCpuRequirement, noTargetReason } from "./target-nodes.ts";
import type { NetworkAttachmentDefinition } from "@patchbay/api";
import type { KubeNode } from "@patchbay/api/kubernetes";

const OWN = "host-model-cpu.node.kubevirt.io/Skylake";
const VENDOR = "cpu-vendor.node.kubevirt.io/Intel";
const ACCEPTS = "cpu-model-migration.node.kubevirt.io/Skylake";
const LABELS = { [OWN]: "true", [VENDOR]: "true", other: "x" };

test.each<{
  name: string;
  model?: string;
  useEmulation?: true;
  labels?: Readonly<Record<string, string>>;
  want: object;
}>([
  {
    name: "host-passthrough",
    model: "host-passthrough",
    want: { labels: { [OWN]: "true", [VENDOR]: "true" } },
  },
  {
    name: "host-passthrough on a node without CPU labels",
    model: "host-passthrough",
    labels: {},
    want: { labels: {}, problem: expect.stringContaining("name a CPU model in the VM") as string },
  },
  {
    name: "host-passthrough with emulation",
    model: "host-passthrough",
    useEmulation: true,
    want: { labels: {} },
  },
  {
    name: "host-model",
    model: "host-model",
    want: { labels: { [ACCEPTS]: "true", [VENDOR]: "true" } },
  },
  {
    name: "host-model on a node without CPU labels",
    model: "host-model",
    labels: {},
    want: { labels: {} },
  },
  { name: "a named CPU model", model: "Nehalem", want: { labels: {} } },
])("$name", ({ model, useEmulation = false, labels = LABELS, want }) => {
  const vmi = aVmi({});
  const domain = { ...vmi.spec.domain, ...(model === undefined ? {} : { cpu: { model } }) };
  const facts = aGuestFacts({ ...vmi, spec: { ...vmi.spec, domain } });
  const node = { apiVersion: "v1", kind: "Node", metadata: { name: "node1", labels } };
  const settings = { ...facts.settings, useEmulation };
  expect(findCpuRequirement({ ...facts, settings }, node)).toEqual(want);
});

test("nothing is known of the node", () => {
  expect(findCpuRequirement(aGuestFacts(), undefined)).toEqual({ labels: {} });
});

function aNode(name: string, more: Partial<KubeNode> = {}): KubeNode {
  const metadata = { name, labels: { disk: name === "node2" ? "ssd" : "hdd" } };
  return { apiVersion: "v1", kind: "Node", metadata, ...more };
}

/** Nodes that have said that they cannot make NICs of it. */
function aNetwork(...nodes: readonly string[]): NetworkAttachmentDefinition {
  const problem = { reason: "NodeLinkUnfit" as const, message: "no link", generation: 1 };
  const problems = nodes.map((node) => ({ node, ...problem, since: "2026-01-01T00:00:00Z" }));
  return {
    apiVersion: "k8s.cni.cncf.io/v1",
    kind: "NetworkAttachmentDefinition",
    metadata: { name: "blue", namespace: "default", generation: 1 },
    status: { problems },
  };
}

const LOST = { status: { conditions: [{ type: "Ready", status: "Unknown" as const }] } };
const CORDONED = { spec: { unschedulable: true } };

test.each<{
  name: string;
  nodes: readonly KubeNode[];
  asked?: Readonly<Record<string, string>>;
  network?: NetworkAttachmentDefinition;
  want: string | undefined;
}>([
  { name: "another node is available", nodes: [aNode("node1"), aNode("node2")], want: undefined },
  { name: "no node is known", nodes: [], want: undefined },
  { name: "no other node exists", nodes: [aNode("node1")], want: "there is none that answers" },
  {
    name: "the other node does not respond",
    nodes: [aNode("node1"), aNode("node2", LOST)],
    want: "there is none that answers",
  },
  {
    name: "the other node is unschedulable",
    nodes: [aNode("node1"), aNode("node2", CORDONED)],
    want: "and takes new pods",
  },
  {
    name: "the other node has the labels",
    nodes: [aNode("node1"), aNode("node2")],
    asked: { disk: "ssd" },
    want: undefined,
  },
  {
    name: "only the guest's own node has the labels",
    nodes: [aNode("node1"), aNode("node2")],
    asked: { disk: "hdd" },
    want: "ask for: disk=hdd",
  },
  {
    name: "the other node lacks the network",
    nodes: [aNode("node1"), aNode("node2")],
    network: aNetwork("node2"),
    want: "node node2 cannot make interfaces of network default/blue: no link",
  },
  {
    name: "a third node has the network",
    nodes: [aNode("node1"), aNode("node2"), aNode("node3")],
    network: aNetwork("node2"),
    want: undefined,
  },
])("$name", ({ nodes, asked: requested, network = aNetwork(), want }) => {
  const attachments = [
    { name: "one", networkName: "default/blue", podInterfaceName: "p", state: "Attached" as const },
  ];
  const interfaces = [{ name: "one", hotplug: { type: "Plug", phase: "Ready" } as const }];
  const vmi = aVmi({ nics: [{ name: "one" }], status: { attachments, interfaces } });
  const definitions = new Map([["default/blue", network]]);
  const migration = aMigration();
  const spec =
    requested === undefined ? migration.spec : { ...migration.spec, addedNodeSelector: requested };
  const reason = noTargetReason(
    { ...aGuestFacts(vmi), definitions },
    { ...migration, spec },
    nodes,
  );
  expect(reason ?? "none").toContain(want ?? "none");
});
