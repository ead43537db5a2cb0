// SPDX-License-Identifier: Apache-2.0
import type { VirtualMachineInstance } from "@patchbay/api";
import type { Namespace, NetworkPolicy, Pod } from "@patchbay/api/kubernetes";
import { createFakeCache } from "@patchbay/kube/testing";
import { aVmi } from "@patchbay/support";
import { expect, test } from "vitest";
import { createPodPolicies, joinPolicies, trimPod } from "./policies.ts";
import { createPolicyPass } from "./policy-pass.ts";

const LAUNCHER = { uid: "pod-uid", namespace: "default", name: "virt-launcher-vm1" };
const EXEMPT = ["10.88.0.1"];

function aPod(name: string, ip: string, labels: Readonly<Record<string, string>> = {}): Pod {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, namespace: "default", uid: `${name}-uid`, labels },
    spec: { containers: [{ name: "compute", image: "image", ports: [{ containerPort: 80 }] }] },
    status: { phase: "Running", podIP: ip, podIPs: [{ ip }] },
  };
}

function aPolicy(name: string, spec: NetworkPolicy["spec"]): NetworkPolicy {
  return {
    apiVersion: "networking.k8s.io/v1",
    kind: "NetworkPolicy",
    metadata: { name, namespace: "default" },
    ...(spec && { spec }),
  };
}

function aNamespace(labels: Readonly<Record<string, string>>): Namespace {
  return { apiVersion: "v1", kind: "Namespace", metadata: { name: "default", labels } };
}

function bench() {
  const policies = createFakeCache<NetworkPolicy>({
    namespace: ({ metadata }) => [metadata.namespace ?? ""],
  });
  const pods = createFakeCache<Pod>();
  const namespaces = createFakeCache<Namespace>();
  const made = createPodPolicies({ policies, pods, namespaces }, EXEMPT);
  let changes = 0;
  made.onChange(() => (changes += 1));
  return { policies, pods, namespaces, made, countChanges: () => changes };
}

const FROM_DEFAULT = aPolicy("p", {
  podSelector: {},
  ingress: [{ from: [{ namespaceSelector: { matchLabels: { team: "a" } } }] }],
});

test("a pod without policies in its namespace is not restricted", () => {
  const { made, policies } = bench();
  expect(made.find(LAUNCHER)).toEqual({ oversized: [] });
  policies.put({ ...FROM_DEFAULT, metadata: { name: "p", namespace: "other" } });
  expect(made.find(LAUNCHER)).toEqual({ oversized: [] });
});

test("a pod that is not known yet is isolated while its namespace has policies", () => {
  const { made, policies, pods } = bench();
  policies.put(aPolicy("p", { podSelector: { matchLabels: { app: "other" } } }));
  expect(made.find(LAUNCHER).policy).toEqual({ ingress: [], egress: [] });
  pods.put(aPod("pod", "10.88.0.5"));
  expect(made.find(LAUNCHER)).toEqual({ oversized: [] });
});

test("follows changes of policies, pods and namespaces, and ignores all others", () => {
  const { made, policies, pods, namespaces, countChanges } = bench();
  policies.put(FROM_DEFAULT);
  pods.put(aPod("pod", "10.88.0.5"));
  expect(made.find(LAUNCHER).policy).toEqual({ ingress: [], exempt: EXEMPT });
  namespaces.put(aNamespace({ team: "a" }));
  const own = { ingress: [{ peers: ["10.88.0.5"] }], exempt: EXEMPT };
  expect(made.find(LAUNCHER).policy).toEqual(own);
  pods.put(aPod("peer", "10.88.0.7"));
  expect(made.find(LAUNCHER).policy?.ingress).toEqual([{ peers: ["10.88.0.5", "10.88.0.7"] }]);
  const before = countChanges();
  const peer = aPod("peer", "10.88.0.7");
  pods.put({ ...peer, metadata: { ...peer.metadata, annotations: { a: "b" } } });
  namespaces.put({ ...aNamespace({ team: "a" }), status: { phase: "Active" } });
  policies.put({ ...FROM_DEFAULT, metadata: { ...FROM_DEFAULT.metadata, resourceVersion: "9" } });
  expect(countChanges()).toBe(before);
  pods.put({ ...peer, status: { phase: "Succeeded" } });
  expect(countChanges()).toBe(before + 1);
  expect(made.find(LAUNCHER).policy).toEqual(own);
  policies.take({ namespace: "default", name: "p" });
  expect(made.find(LAUNCHER)).toEqual({ oversized: [] });
});

test("wakes only VMIs whose policies changed, and warns of policies that are too large", async () => {
  const { made: policies, policies: stored, pods } = bench();
  const vmis = createFakeCache<VirtualMachineInstance>();
  const vmi = aVmi({ status: { phase: "Running", activePods: { "pod-uid": "node-1" } } });
  vmis.put({ ...vmi, status: { ...vmi.status, nodeName: "node-1" } });
  const notes: string[] = [];
  const woken: string[] = [];
  const events = {
    record: (_object: unknown, { reason, message }: { reason: string; message: string }) => {
      notes.push(`${reason} ${message}`);
    },
    flush: () => Promise.resolve(),
  };
  const deps = { policies: joinPolicies({ pod: policies }), vmis, events, nodeName: "node-1" };
  const pass = createPolicyPass(deps, (key) => {
    woken.push(key);
  });
  await pass();
  pods.put(aPod("pod", "10.88.0.5", { app: "db" }));
  await pass();
  expect(woken).toEqual([]);
  stored.put(
    aPolicy("large", { podSelector: {}, ingress: Array.from({ length: 65 }, () => ({})) }),
  );
  await pass();
  await pass();
  expect(woken).toEqual(["default/vm1"]);
  expect(notes).toEqual([
    "NetworkPolicyTooLarge NetworkPolicy large has too many rules, peers, blocks or ports, so it allows no traffic of this VM: split it into several policies",
  ]);
  stored.put(aPolicy("other", { podSelector: { matchLabels: { app: "web" } } }));
  await pass();
  expect(woken).toHaveLength(1);
});

test("retains of a pod only what policies need", () => {
  const pod = aPod("pod", "10.88.0.5", { app: "db" });
  const trimmed = trimPod({ ...pod, spec: { ...pod.spec, nodeName: "n" } });
  expect(trimmed.spec).toEqual({
    containers: [{ name: "compute", image: "", ports: [{ containerPort: 80 }] }],
  });
  expect(trimmed.status).toEqual(pod.status);
  expect(trimmed.metadata.labels).toEqual({ app: "db" });
});
