// SPDX-License-Identifier: Apache-2.0
import type {
  KubeNode,
  Pod,
  PersistentVolume,
  PersistentVolumeClaim,
} from "@patchbay/api/kubernetes";
import { describe, expect, test } from "vitest";
import { aContainer, aPod } from "../testing/pods.ts";
import {
  placePod,
  type ClusterState,
  findVolumeProblem,
  trimNamespace,
  trimNode,
  trimPod,
} from "./placement.ts";

type Spec = Partial<Pod["spec"]>;

function aNode(name: string, labels = {}, spec: KubeNode["spec"] = {}): KubeNode {
  const own = { "kubernetes.io/hostname": name, ...labels };
  const status = { allocatable: { cpu: "2", memory: "4Gi", pods: "3" } };
  return { apiVersion: "v1", kind: "Node", metadata: { name, labels: own }, spec, status };
}

const A = aNode("a", { zone: "north" });
const B = aNode("b", { zone: "south" });
const large = aContainer({ resources: { requests: { memory: "5Gi", cpu: "3" } } });

/** Placement among two nodes and the given pods. Checks that the result is the same for trimmed objects. */
function placed(pod: Pod, cluster: Partial<ClusterState> = {}) {
  const state = {
    nodes: [A, B],
    placedPods: [],
    findNamespaceLabels: (namespace: string) => (namespace === "other" ? { team: "x" } : {}),
    findVolumeProblem: () => undefined,
    ...cluster,
  };
  const placement = placePod(pod, state);
  const trimmed = {
    ...state,
    nodes: state.nodes.map(trimNode),
    placedPods: state.placedPods.map((each) => ({
      pod: trimPod(each.pod),
      node: trimNode(each.node),
    })),
  };
  expect(placePod(trimPod(pod), trimmed)).toEqual(placement);
  return placement;
}

const on = (node: KubeNode, pod: Pod) => ({ pod, node });
const labelled = (app: string, spec: Spec = {}, namespace = "ns"): Pod =>
  aPod(spec, { labels: { app }, namespace });

/** A rule of affinity to pods with that label. */
function near(app: string, more: object = {}) {
  const topologyKey = "kubernetes.io/hostname";
  return { labelSelector: { matchLabels: { app } }, topologyKey, ...more };
}

const inTeam = (team: string) => ({ namespaceSelector: { matchLabels: { team } } });

const required = (...terms: readonly object[]) => ({
  requiredDuringSchedulingIgnoredDuringExecution: terms,
});

function onlyNodes(...nodeSelectorTerms: readonly object[]): Spec {
  const requiredDuringSchedulingIgnoredDuringExecution = { nodeSelectorTerms };
  return { affinity: { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution } } };
}

const expression = (key: string, operator: string, ...values: readonly string[]) => ({
  matchExpressions: [{ key, operator, values }],
});

test.each([
  { name: "a label in nodeSelector", spec: { nodeSelector: { zone: "south" } }, want: "b" },
  { name: "operator In", spec: onlyNodes(expression("zone", "In", "south")), want: "b" },
  {
    name: "operator NotIn",
    spec: onlyNodes(expression("zone", "NotIn", "north")),
    want: "b",
  },
  {
    name: "the second of two terms",
    spec: onlyNodes(expression("rack", "Exists"), expression("zone", "In", "south")),
    want: "b",
  },
  {
    name: "a node's name",
    spec: onlyNodes({ matchFields: [{ key: "metadata.name", operator: "In", values: ["b"] }] }),
    want: "b",
  },
])("$name determines the node", ({ spec, want }) => {
  expect(placed(aPod(spec))).toEqual({ nodeName: want });
});

describe("preferred node among several", () => {
  const soft = [{ key: "old", effect: "PreferNoSchedule" }] as const;
  const preference = (weight: number, value: string) => ({
    weight,
    preference: expression("zone", "In", value),
  });
  const preferring = (...list: readonly object[]): Spec => ({
    affinity: { nodeAffinity: { preferredDuringSchedulingIgnoredDuringExecution: list } },
  });
  const antiAffinityTerms = (weight: number): Spec => ({
    affinity: {
      podAntiAffinity: {
        preferredDuringSchedulingIgnoredDuringExecution: [{ weight, podAffinityTerm: near("web") }],
      },
    },
  });
  test.each([
    { name: "the first by name", cluster: { nodes: [B, A] }, want: "a" },
    { name: "the one with fewer pods", cluster: { placedPods: [on(A, aPod())] }, want: "b" },
    {
      name: "prefers the node with the highest affinity weight",
      spec: preferring(preference(1, "north"), preference(2, "south")),
      want: "b",
    },
    {
      name: "avoids a node by preferred anti-affinity",
      spec: antiAffinityTerms(5),
      cluster: { placedPods: [on(A, labelled("web"))] },
      want: "b",
    },
    {
      name: "avoids a node with a PreferNoSchedule taint",
      cluster: { nodes: [aNode("a", {}, { taints: soft }), B] },
      want: "b",
    },
  ])("$name", ({ spec = {}, cluster = {}, want }) => {
    expect(placed(aPod(spec), cluster)).toEqual({ nodeName: want });
  });
});

describe("pod affinity", () => {
  const aloof = { affinity: { podAntiAffinity: required(near("web")) } };
  const clingy = { affinity: { podAffinity: required(near("web")) } };
  const web = labelled("web");
  test.each([
    { name: "avoids pods by anti-affinity", pod: aPod(aloof), there: [on(A, web)], want: "b" },
    {
      name: "avoids pods whose anti-affinity matches the pod",
      pod: web,
      there: [on(A, aPod(aloof))],
      want: "b",
    },
    { name: "follows pods by affinity", pod: aPod(clingy), there: [on(B, web)], want: "b" },
    {
      name: "the first pod of a group may match itself",
      pod: labelled("web", clingy),
      there: [],
      want: "a",
    },
    {
      name: "the second pod of a group follows the first",
      pod: labelled("web", clingy),
      there: [on(B, labelled("web", clingy))],
      want: "b",
    },
    {
      name: "ignores pods in another namespace",
      pod: aPod(aloof),
      there: [on(A, labelled("web", {}, "other"))],
      cluster: { nodes: [A] },
      want: "a",
    },
    {
      name: "considers pods in a listed namespace",
      pod: aPod({
        affinity: { podAntiAffinity: required(near("web", { namespaces: ["other"] })) },
      }),
      there: [on(A, labelled("web", {}, "other"))],
      want: "b",
    },
    {
      name: "considers pods in all namespaces",
      pod: aPod({
        affinity: { podAntiAffinity: required(near("web", { namespaceSelector: {} })) },
      }),
      there: [on(A, labelled("web", {}, "other"))],
      want: "b",
    },
    {
      name: "considers pods in a namespace with the selected labels",
      pod: aPod({ affinity: { podAntiAffinity: required(near("web", inTeam("x"))) } }),
      there: [on(A, labelled("web", {}, "other"))],
      want: "b",
    },
    {
      name: "ignores pods in a namespace without the selected labels",
      pod: aPod({ affinity: { podAntiAffinity: required(near("web", inTeam("y"))) } }),
      there: [on(A, labelled("web", {}, "other"))],
      cluster: { nodes: [A] },
      want: "a",
    },
    {
      name: "ignores pods in its own namespace if another one is selected",
      pod: aPod({ affinity: { podAntiAffinity: required(near("web", inTeam("x"))) } }),
      there: [on(A, web)],
      cluster: { nodes: [A] },
      want: "a",
    },
    {
      name: "considers the anti-affinity of pods that select its namespace by labels",
      pod: labelled("web", {}, "other"),
      there: [on(A, aPod({ affinity: { podAntiAffinity: required(near("web", inTeam("x"))) } }))],
      want: "b",
    },
    {
      name: "considers pods in the same zone",
      pod: aPod({ affinity: { podAntiAffinity: required(near("web", { topologyKey: "zone" })) } }),
      there: [on(A, web)],
      cluster: { nodes: [aNode("a2", { zone: "north" }), B, A] },
      want: "b",
    },
  ])("decide: $name", ({ pod, there, cluster = {}, want }) => {
    expect(placed(pod, { placedPods: there, ...cluster })).toEqual({ nodeName: want });
  });
});

describe("the reason for a pod that fits no node", () => {
  const cordoned = aNode("b", {}, { unschedulable: true });
  const tainted = aNode("b", {}, { taints: [{ key: "rack", value: "7", effect: "NoExecute" }] });
  const nodes = [A];
  test.each([
    {
      name: "missing node labels",
      spec: { nodeSelector: { zone: "west", rack: "7" }, containers: [large] },
      want: "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector (rack=7, zone=west).",
    },
    {
      name: "an empty node selector term",
      spec: onlyNodes({}),
      want: "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector.",
    },
    {
      name: "a request above the node's capacity",
      spec: { containers: [large] },
      cluster: { nodes },
      want: "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory.",
    },
    {
      name: "no place left",
      cluster: { nodes, placedPods: [aPod(), aPod(), aPod()].map((pod) => on(A, pod)) },
      want: "0/1 nodes are available: 1 Too many pods.",
    },
    {
      name: "a separate reason for each node",
      spec: { nodeSelector: { "kubernetes.io/hostname": "b" } },
      cluster: { nodes: [A, cordoned] },
      want: "0/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector (kubernetes.io/hostname=b), 1 node(s) were unschedulable.",
    },
    {
      name: "a taint",
      cluster: { nodes: [tainted] },
      want: "0/1 nodes are available: 1 node(s) had untolerated taint {rack: 7}.",
    },
    {
      name: "volumes",
      cluster: { findVolumeProblem: () => "node(s) had volume node affinity conflict" },
      want: "0/2 nodes are available: 2 node(s) had volume node affinity conflict.",
    },
    {
      name: "anti-affinity in both directions",
      spec: { affinity: { podAntiAffinity: required(near("web")) } },
      cluster: {
        placedPods: [
          on(A, labelled("web")),
          on(B, labelled("db", { affinity: { podAntiAffinity: required(near("a")) } })),
        ],
      },
      want: "0/2 nodes are available: 1 node(s) didn't match pod anti-affinity rules, 1 node(s) didn't satisfy existing pods anti-affinity rules.",
    },
    {
      name: "missing pods for the affinity",
      spec: { affinity: { podAffinity: required(near("web")) } },
      want: "0/2 nodes are available: 2 node(s) didn't match pod affinity rules.",
    },
  ])("$name", ({ spec = {}, cluster = {}, want }) => {
    expect(placed(aPod(spec, { labels: { app: "a" } }), cluster)).toEqual({ problem: want });
  });
});

test("a pod that tolerates everything can use a tainted node", () => {
  const taints = [{ key: "rack", effect: "NoExecute" }] as const;
  const nodes = [aNode("a", {}, { taints, unschedulable: true })];
  const tolerations = [{ operator: "Exists" }];
  expect(placed(aPod({ tolerations }), { nodes })).toEqual({ nodeName: "a" });
});

test("a node without reported resources gets no pod", () => {
  const { apiVersion, kind, metadata } = A;
  const nodes = [{ apiVersion, kind, metadata }];
  expect(placed(aPod(), { nodes })).toEqual({
    problem: "0/1 nodes are available: 1 node(s) have not reported their resources.",
  });
});

const node = (name: string): KubeNode => ({
  apiVersion: "v1",
  kind: "Node",
  metadata: { name, labels: { host: name } },
});

function volume(nodeAffinity?: object): PersistentVolume {
  const spec = nodeAffinity === undefined ? {} : { nodeAffinity };
  return { apiVersion: "v1", kind: "PersistentVolume", metadata: { name: "v" }, spec };
}

function claim(volumeName?: string): PersistentVolumeClaim {
  const spec = volumeName === undefined ? {} : { volumeName };
  return { apiVersion: "v1", kind: "PersistentVolumeClaim", metadata: { name: "data" }, spec };
}

const onB = {
  required: {
    nodeSelectorTerms: [{ matchExpressions: [{ key: "host", operator: "In", values: ["b"] }] }],
  },
};
const volumes = [{ name: "d", persistentVolumeClaim: { claimName: "data" } }];

test.each([
  { name: "no claim", spec: {}, want: ["a", "b"] },
  { name: "a volume of one node", claim: claim("v"), volume: volume(onB), want: ["b"] },
  { name: "a volume of all nodes", claim: claim("v"), volume: volume(), want: ["a", "b"] },
  { name: "a claim that gets its volume yet", claim: claim(), want: ["a"] },
  { name: "a missing claim", want: ["a"] },
])("$name: the pod fits $want", ({ spec = { volumes }, want, ...there }) => {
  const lookup = {
    findClaim: () => there.claim,
    findClass: () => undefined,
    findVolume: (name: string) => (name === "v" ? there.volume : undefined),
  };
  const at = { claimNode: "a", lookup };
  const usable = ["a", "b"].filter(
    (name) => findVolumeProblem(aPod(spec), node(name), at) === undefined,
  );
  expect(usable).toEqual(want);
});

describe("the caches of the binder", () => {
  const big = { text: "x".repeat(1000) };

  test("retain what the binder reads of a pod", () => {
    const kept = { labels: { app: "a" }, creationTimestamp: "2026-01-01T00:00:00Z" };
    const claim = { name: "data", persistentVolumeClaim: { claimName: "data" } };
    const resources = { requests: { cpu: "1" } };
    const status = {
      phase: "Pending",
      conditions: [{ type: "PodScheduled", status: "False" }],
      resourceClaimStatuses: [{ name: "nic", resourceClaimName: "x" }],
    } as const;
    const read = {
      nodeName: "n",
      nodeSelector: { a: "b" },
      tolerations: [{ key: "k" }],
      affinity: { nodeAffinity: {} },
      resourceClaims: [{ name: "nic", resourceClaimName: "x" }],
    };
    const pod = aPod(
      {
        ...read,
        containers: [aContainer({ resources, env: [{ name: "A", value: big.text }] })],
        initContainers: [aContainer({ command: [big.text] })],
        volumes: [claim, { name: "other", emptyDir: {} }],
      },
      { ...kept, annotations: big },
    );
    const trimmed = trimPod({ ...pod, status: { ...status, message: big.text } });
    expect(trimmed).toMatchObject({ metadata: kept, spec: { ...read, volumes: [claim] }, status });
    expect(trimmed.spec.containers).toMatchObject([{ resources }]);
    expect(JSON.stringify(trimmed)).not.toContain("xxx");
    expect(trimPod(aPod()).spec).not.toHaveProperty("volumes");
  });

  test("retain the labels, taints and resources of nodes, and the labels of namespaces", () => {
    const taints = [{ key: "k", effect: "NoSchedule" }] as const;
    const node = aNode("a", {}, { taints });
    const { allocatable } = node.status ?? {};
    const metadata = { ...node.metadata, annotations: big };
    const status = { ...node.status, conditions: [] };
    expect(trimNode({ ...node, metadata, status })).toEqual({ ...node, status: { allocatable } });
    const { apiVersion, kind } = node;
    expect(trimNode({ apiVersion, kind, metadata })).toEqual({
      apiVersion,
      kind,
      metadata: node.metadata,
    });
    const namespace = { apiVersion, kind: "Namespace", metadata };
    expect(trimNamespace(namespace)).toEqual({ ...namespace, metadata: node.metadata });
  });
});
