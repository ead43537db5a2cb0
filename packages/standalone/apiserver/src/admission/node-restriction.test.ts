// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { CONFIG_MAP } from "../kinds/config/config-map.ts";
import { LEASE, NODE } from "../kinds/cluster/node.ts";
import { POD } from "../kinds/workload/pod.ts";
import type { KubeObject } from "../objects/object.ts";
import type { AdmissionRequest } from "./admission.ts";
import { SERVICE_ACCOUNT } from "../kinds/access/service-account.ts";
import type { StoredObject } from "../storage/store.ts";
import { restrictNode } from "./node-restriction.ts";

function pod(nodeName: string, labels: Record<string, string> = {}): KubeObject {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "p", namespace: "ns", labels },
    spec: { nodeName },
  };
}

function node(labels: Record<string, string> = {}, taints: readonly unknown[] = []): KubeObject {
  return { apiVersion: "v1", kind: "Node", metadata: { name: "n1", labels }, spec: { taints } };
}

/** Pods `p` of this node and `q` of another one. */
const pods = {
  find: ({ name }: { readonly name: string }) => {
    const found = { p: pod("n1"), q: pod("n2") }[name];
    if (found === undefined) return undefined;
    const view = () => ({ ...found, metadata: { ...found.metadata, uid: "1" } });
    return { view } as unknown as StoredObject; // only its view is looked at
  },
};

function tokenFor(boundObjectRef: unknown): Partial<AdmissionRequest> {
  const object = {
    apiVersion: "authentication.k8s.io/v1",
    kind: "TokenRequest",
    metadata: { name: "default" },
    spec: { boundObjectRef },
  };
  const at = { kind: SERVICE_ACCOUNT, subresource: "token", name: "default" } as const;
  return { ...at, operation: "CREATE", object, oldObject: undefined };
}

const BASE: AdmissionRequest = {
  kind: POD,
  subresource: "",
  operation: "UPDATE",
  namespace: "ns",
  name: "p",
  object: pod("n1"),
  oldObject: pod("n1"),
  options: {},
  user: { name: "system:node:n1", groups: ["system:nodes"] },
  dryRun: false,
  warnings: [],
};
const STATUS = { subresource: "status" } as const;
const DELETE = { operation: "DELETE", object: undefined } as const;
const CREATE = { operation: "CREATE", oldObject: undefined } as const;
const ITSELF = { kind: NODE, namespace: "", name: "n1", object: node(), oldObject: node() };
const A_LEASE = { kind: LEASE, namespace: "kube-node-lease", name: "n1" };

const cases: readonly {
  name: string;
  change: Partial<AdmissionRequest>;
  refused: string | undefined;
}[] = [
  { name: "the status of a pod of its own", change: STATUS, refused: undefined },
  {
    name: "the status of a pod of another node",
    change: { ...STATUS, object: pod("n2"), oldObject: pod("n2") },
    refused: "can only update the status of pods with spec.nodeName set to itself",
  },
  {
    name: "labels by a pod's status",
    change: { ...STATUS, object: pod("n1", { a: "b" }) },
    refused: "cannot update labels",
  },
  { name: "an update of a pod's main resource", change: {}, refused: "not allowed to update pods" },
  {
    name: "a pod of another node",
    change: { oldObject: pod("n2") },
    refused: "not allowed to update pods",
  },
  {
    name: "a binding",
    change: { ...CREATE, subresource: "binding" },
    refused: "unexpected pod subresource binding",
  },
  { name: "a new pod", change: CREATE, refused: "only create mirror pods" },
  { name: "the end of a pod of its own", change: DELETE, refused: undefined },
  {
    name: "the end of a pod of another node",
    change: { ...DELETE, oldObject: pod("n2") },
    refused: "can only delete pods",
  },
  {
    name: "a mirror pod",
    change: {
      ...CREATE,
      object: {
        ...pod("n1"),
        metadata: { name: "p", annotations: { "kubernetes.io/config.mirror": "x" } },
      },
    },
    refused: undefined,
  },
  {
    name: "an eviction of a pod on its own node, with pod labels missing in the Eviction",
    change: { ...CREATE, subresource: "eviction", oldObject: pod("n1", { a: "b" }) },
    refused: undefined,
  },
  { name: "itself", change: ITSELF, refused: undefined },
  {
    name: "the deletion of its own node",
    change: { ...ITSELF, operation: "DELETE", object: undefined },
    refused: undefined,
  },
  {
    name: "its own end, with labels and taints of the cluster",
    change: {
      ...ITSELF,
      ...DELETE,
      oldObject: node({ "kubernetes.io/role": "1" }, [{ key: "a" }]),
    },
    refused: undefined,
  },
  {
    name: "its own labels beside an unchanged reserved label",
    change: {
      ...ITSELF,
      object: node({ "kubernetes.io/role": "1", own: "2" }),
      oldObject: node({ "kubernetes.io/role": "1", own: "1" }),
    },
    refused: undefined,
  },
  {
    name: "its own node with an empty spec instead of missing taints",
    change: { ...ITSELF, object: { ...node(), spec: {} } },
    refused: undefined,
  },
  {
    name: "a kind without a rule",
    change: { kind: CONFIG_MAP },
    refused: undefined,
  },
  {
    name: "the end of another node",
    change: { ...ITSELF, name: "n2", operation: "DELETE", object: undefined },
    refused: "modify node n2",
  },
  {
    name: "the creation of its own node with taints",
    change: { ...ITSELF, ...CREATE, object: node({ own: "1" }, [{ key: "a" }]) },
    refused: undefined,
  },
  {
    name: "the creation of its own node with a reserved label",
    change: { ...ITSELF, ...CREATE, object: node({ "x.k8s.io/b": "1", "k8s.io/a": "1" }) },
    refused: "modify labels: k8s.io/a, x.k8s.io/b",
  },
  {
    name: "the loss of a reserved label",
    change: { ...ITSELF, oldObject: node({ "kubernetes.io/role": "1" }) },
    refused: "modify labels: kubernetes.io/role",
  },
  {
    name: "kubelet labels and labels that only resemble reserved labels",
    change: {
      ...ITSELF,
      object: node({
        "k8s.io": "1",
        "notk8s.io/a": "1",
        "k8s.io.example/a": "1",
        "kubelet.kubernetes.io/a": "1",
        "x.node.kubernetes.io/a": "1",
      }),
    },
    refused: undefined,
  },
  {
    name: "a label of a domain that only ends like that of kubelets",
    change: { ...ITSELF, object: node({ "mynode.kubernetes.io/a": "1" }) },
    refused: "modify labels: mynode.kubernetes.io/a",
  },
  { name: "another node", change: { ...ITSELF, name: "n2" }, refused: "modify node n2" },
  {
    name: "labels that kubelets may set",
    change: { ...ITSELF, object: node({ "kubernetes.io/arch": "amd64", own: "1" }) },
    refused: undefined,
  },
  {
    name: "a role of the cluster",
    change: { ...ITSELF, object: node({ "node-role.kubernetes.io/control-plane": "" }) },
    refused: "modify labels: node-role.kubernetes.io/control-plane",
  },
  {
    name: "its taints",
    change: { ...ITSELF, object: node({}, [{ key: "a" }]) },
    refused: "not allowed to modify taints",
  },
  { name: "its lease", change: A_LEASE, refused: undefined },
  { name: "the lease of another node", change: { ...A_LEASE, name: "n2" }, refused: "same name" },
  {
    name: "a lease in another namespace",
    change: { ...A_LEASE, namespace: "ns" },
    refused: "can only access leases",
  },
  {
    name: "its lease as new",
    change: {
      ...A_LEASE,
      name: "",
      object: { apiVersion: "coordination.k8s.io/v1", kind: "Lease", metadata: { name: "n1" } },
    },
    refused: undefined,
  },
  {
    name: "the creation of another node's lease",
    change: {
      ...A_LEASE,
      name: "",
      object: { apiVersion: "coordination.k8s.io/v1", kind: "Lease", metadata: { name: "n2" } },
    },
    refused: 'leases.coordination.k8s.io "n2" is forbidden: can only access node lease',
  },
  {
    name: "a service account",
    change: { ...CREATE, kind: SERVICE_ACCOUNT, name: "default" },
    refused: undefined,
  },
  {
    name: "an update of a service account in place of a token",
    change: { ...tokenFor(undefined), operation: "UPDATE" },
    refused: undefined,
  },
  {
    name: "a token of a pod of another version",
    change: tokenFor({ apiVersion: "v2", kind: "Pod", name: "p", uid: "1" }),
    refused: "not bound to a pod",
  },
  {
    name: "a token bound to a pod on its own node",
    change: tokenFor({ apiVersion: "v1", kind: "Pod", name: "p", uid: "1" }),
    refused: undefined,
  },
  {
    name: "a token of a pod of another node",
    change: tokenFor({ apiVersion: "v1", kind: "Pod", name: "q", uid: "1" }),
    refused: "bound to a pod scheduled on a different node",
  },
  {
    name: "a token bound to a missing pod",
    change: tokenFor({ apiVersion: "v1", kind: "Pod", name: "x", uid: "1" }),
    refused: "bound to a pod scheduled on a different node",
  },
  {
    name: "a token of an earlier pod of that name",
    change: tokenFor({ apiVersion: "v1", kind: "Pod", name: "p", uid: "0" }),
    refused: "does not match the UID in record",
  },
  {
    name: "a token bound to a pod without a uid",
    change: tokenFor({ apiVersion: "v1", kind: "Pod", name: "p" }),
    refused: "a pod binding without a uid",
  },
  {
    name: "a token that outlives its pod",
    change: tokenFor(undefined),
    refused: "not bound to a pod",
  },
  {
    name: "a token of a secret",
    change: tokenFor({ apiVersion: "v1", kind: "Secret", name: "p", uid: "1" }),
    refused: "not bound to a pod",
  },
];

/** Why it is refused; empty where it is not. */
function refusalOf(change: Partial<AdmissionRequest>): string {
  try {
    restrictNode({ ...BASE, ...change }, pods);
    return "";
  } catch (error) {
    return String(error);
  }
}

describe("writes of a node", () => {
  test.each(cases)("$name", ({ change, refused }) => {
    const refusal = refusalOf(change);
    expect(refusal).toContain(refused ?? "");
    expect(refusal === "").toBe(refused === undefined);
  });

  test("restricts only members of the nodes group", () => {
    expect(refusalOf({ user: { name: "system:node:n1", groups: ["people"] } })).toBe("");
  });
});
