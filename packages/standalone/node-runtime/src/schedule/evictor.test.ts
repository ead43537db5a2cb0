// SPDX-License-Identifier: Apache-2.0
// The loop over pods that a taint ends, on caches that a test feeds.
import { PODS } from "@patchbay/api";
import type { KubeNode, KubeObject, Pod, Taint } from "@patchbay/api/kubernetes";
import type { Note } from "@patchbay/kube";
import { createFakeCache, createFakeStore, type FakeStore } from "@patchbay/kube/testing";
import { createFakeClock, settle, type FakeClock } from "@patchbay/os/testing";
import { createFakeLogger } from "@patchbay/telemetry/testing";
import { afterEach, beforeEach, expect, test } from "vitest";
import { aPod } from "../testing/pods.ts";
import { runEvictor } from "./evictor.ts";

let clock: FakeClock;
let store: FakeStore;
let events: string[];
let pods = createFakeCache<Pod>();
let nodes = createFakeCache<KubeNode>();
let stop: AbortController;
let ended: Promise<void> | undefined;

beforeEach(() => {
  clock = createFakeClock();
  store = createFakeStore();
  events = [];
  pods = createFakeCache<Pod>();
  nodes = createFakeCache<KubeNode>();
  stop = new AbortController();
});

afterEach(async () => {
  stop.abort();
  await ended;
});

async function rest(): Promise<void> {
  for (let turn = 0; turn < 10; turn += 1) await settle();
}

/** What is there when the loop begins. */
async function list(someNodes: readonly KubeNode[], somePods: readonly Pod[]): Promise<void> {
  for (const node of someNodes) nodes.put(node);
  for (const pod of somePods) put(pod);
  const recorder = {
    record: ({ metadata }: KubeObject, { type, reason, message }: Note): void => {
      events.push([metadata.name, type, reason, message].join(" "));
    },
    flush: () => Promise.resolve(),
  };
  const log = createFakeLogger();
  ended = runEvictor({ client: { store }, clock, log, recorder, pods, nodes }, stop.signal);
  await rest();
}

function isPod(object: KubeNode | Pod): object is Pod {
  return object.kind === "Pod";
}

function put(object: KubeNode | Pod): void {
  if (isPod(object)) {
    store.put(PODS, object);
    pods.put(object);
  } else nodes.put(object);
}

async function apply(object: KubeNode | Pod): Promise<void> {
  put(object);
  await rest();
}

async function remove({ kind, metadata }: KubeNode | Pod): Promise<void> {
  const { name, namespace = "" } = metadata;
  if (kind === "Pod") pods.take({ namespace, name });
  else nodes.take({ name });
  await rest();
}

async function later(ms: number): Promise<void> {
  await clock.advance(ms);
  await rest();
}

function aNode(name: string, taints?: readonly Taint[]): KubeNode {
  return {
    apiVersion: "v1",
    kind: "Node",
    metadata: { name },
    ...(taints && { spec: { taints } }),
  };
}

function onNode(name: string, nodeName: string, spec: Partial<Pod["spec"]> = {}): Pod {
  return aPod({ nodeName, ...spec }, { name, uid: `uid-${name}` });
}

const taint: Taint = { key: "maintenance", effect: "NoExecute" };
const tainted = (...taints: readonly Taint[]): KubeNode => aNode("n", taints);
const tolerant = (seconds: number) => ({
  tolerations: [{ key: "maintenance", operator: "Exists", tolerationSeconds: seconds }],
});
const pod = onNode("x", "n");
const patient = onNode("p", "n", tolerant(60));
const deletions = (): readonly string[] => store.calls.filter((call) => call.startsWith("delete"));

test("a taint evicts a pod that does not tolerate it", async () => {
  await list([tainted(taint)], [pod, onNode("elsewhere", "m")]);
  expect(deletions()).toEqual(["delete pods ns/x"]);
  expect(events).toEqual([
    "x Normal TaintManagerEviction Deleting pod: it does not tolerate the taint maintenance:NoExecute of the node",
  ]);
});

test.each<{ name: string; change: Partial<Pod> }>([
  { name: "has ended", change: { status: { phase: "Succeeded" } } },
  {
    name: "is being deleted",
    change: { metadata: { ...pod.metadata, deletionTimestamp: "2026-11-28T10:00:00Z" } },
  },
])("a taint does not evict a pod that $name", async ({ change }) => {
  await list([tainted(taint)], [{ ...pod, ...change }]);
  expect(deletions()).toEqual([]);
});

test("a taint evicts a pod after its toleration time, despite changes meanwhile", async () => {
  await list([tainted()], [patient]);
  await later(60_000);
  expect(deletions()).toEqual([]);
  await apply(tainted(taint));
  await later(30_000);
  await apply({ ...patient, metadata: { ...patient.metadata, labels: { app: "x" } } });
  await later(29_999);
  expect(deletions()).toEqual([]);
  await later(1);
  expect(deletions()).toEqual(["delete pods ns/p"]);
});

test.each<{ name: string; act: () => Promise<void> }>([
  {
    name: "the taint was away",
    act: async () => {
      await apply(tainted());
      await apply(tainted(taint));
    },
  },
  {
    name: "another pod has its name",
    act: () => apply({ ...patient, metadata: { ...patient.metadata, uid: "other" } }),
  },
  {
    name: "the pod left the node and returned",
    act: async () => {
      await remove(patient);
      await later(30_000);
      await apply(patient);
    },
  },
])("the toleration time starts over when $name", async ({ act }) => {
  await list([tainted(taint)], [patient]);
  await later(30_000);
  await act();
  await later(59_999);
  expect(deletions()).toEqual([]);
  await later(1);
  expect(deletions()).toHaveLength(1);
});

test("a taint on a new node takes effect", async () => {
  await list([aNode("n")], [pod]);
  expect(deletions()).toEqual([]);
  await remove(aNode("n", []));
  expect(deletions()).toEqual([]);
  await apply(tainted(taint));
  expect(deletions()).toEqual(["delete pods ns/x"]);
});
