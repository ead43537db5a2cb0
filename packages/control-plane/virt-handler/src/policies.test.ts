// SPDX-License-Identifier: Apache-2.0
import type { VirtualMachineInstance } from "@patchbay/api";
import type {
  LabelSelector,
  Namespace,
  NetworkPolicy,
  Pod,
  PolicyPeer,
} from "@patchbay/api/kubernetes";
import { createFakeCache } from "@patchbay/kube/testing";
import { aVmi } from "@patchbay/support";
import { expect, test } from "vitest";
import { createPodPolicies, joinPolicies, POLICY_INDEXES, trimPod } from "./policies.ts";
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
  const policies = createFakeCache<NetworkPolicy>(POLICY_INDEXES);
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

test("plans again only for pods that a change can affect", () => {
  const { made, policies, pods, namespaces } = bench();
  const select = (app: string): LabelSelector => ({ matchLabels: { app } });
  const allow = (name: string, peer: PolicyPeer): NetworkPolicy =>
    aPolicy(name, { podSelector: select(name), ingress: [{ from: [peer] }] });
  policies.put(allow("db", { podSelector: select("web") }));
  policies.put(allow("cache", { podSelector: {}, namespaceSelector: { matchLabels: { a: "b" } } }));
  policies.put(allow("block", { ipBlock: { cidr: "10.0.0.0/8" } }));
  const named = aPolicy("named", {
    podSelector: select("named"),
    policyTypes: ["Egress"],
    egress: [{ ports: [{ port: "http" }] }],
  });
  policies.put(named);
  const names = ["db", "cache", "block", "named"];
  names.forEach((name, index) => {
    pods.put(aPod(name, `10.88.0.${String(index + 1)}`, { app: name }));
  });
  const findAll = () =>
    names.map((name) => made.find({ uid: `${name}-uid`, namespace: "default", name }));
  let plans = findAll();
  const replanned = (change: () => void): readonly string[] => {
    change();
    const previous = plans;
    plans = findAll();
    return names.filter((_, index) => plans[index] !== previous[index]);
  };
  const web = aPod("web", "10.88.0.9", { app: "web" });
  const labels = { app: "web", other: "x" };
  const pod = (change: Pod) =>
    replanned(() => {
      pods.put(change);
    });
  expect(pod(web)).toEqual(["db"]);
  expect(pod({ ...web, metadata: { ...web.metadata, labels } })).toEqual([]);
  expect(pod(aPod("web", "10.88.0.10", { app: "web" }))).toEqual(["db"]);
  expect(pod(aPod("web", "10.88.0.10", { app: "x" }))).toEqual(["db"]);
  expect(pod(aPod("web", "10.88.0.11", { app: "x" }))).toEqual([]);
  expect(pod(aPod("block", "10.88.0.3", { app: "block", other: "x" }))).toEqual(["block"]);
  expect(
    replanned(() => {
      namespaces.put(aNamespace({ a: "c" }));
    }),
  ).toEqual([]);
  expect(
    replanned(() => {
      namespaces.put(aNamespace({ a: "b" }));
    }),
  ).toEqual(["cache"]);
  expect(pod(aPod("web", "10.88.0.12", { app: "x" }))).toEqual(["cache"]);
  const ports = [{ name: "http", containerPort: 80 }];
  const spec = { containers: [{ name: "compute", image: "image", ports }] };
  const elsewhere = { ...web.metadata, namespace: "other", uid: "elsewhere" };
  expect(pod({ ...web, metadata: elsewhere, spec })).toEqual(["named"]);
  const wider = { ...named, spec: { podSelector: select("block") } };
  expect(
    replanned(() => {
      policies.put(wider);
    }),
  ).toEqual(["block", "named"]);
  expect(
    replanned(() => {
      policies.take({ namespace: "default", name: "db" });
    }),
  ).toEqual(["db"]);
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
