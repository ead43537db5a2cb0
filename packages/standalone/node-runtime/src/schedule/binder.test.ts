// SPDX-License-Identifier: Apache-2.0
// The loop over pods that have no node, on watches that a test feeds.
import { PERSISTENT_VOLUME_CLAIMS, PODS, RESOURCE_CLAIMS } from "@patchbay/api";
import type {
  KubeNode,
  KubeObject,
  PersistentVolume,
  PersistentVolumeClaim,
  Pod,
  StorageClass,
  Taint,
} from "@patchbay/api/kubernetes";
import { AppError } from "@patchbay/base";
import type { KubeClient, Note } from "@patchbay/kube";
import { createFakeCache, createFakeStore } from "@patchbay/kube/testing";
import { createFakeClock, settle } from "@patchbay/os/testing";
import { createFakeLogger } from "@patchbay/telemetry/testing";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { aClaim, aClass } from "../claims/testing.ts";
import { aPod } from "../testing/pods.ts";
import { runBinder } from "./binder.ts";

interface Reflected {
  readonly kind: string;
  readonly object?: unknown;
  readonly objects?: readonly unknown[];
}
type Emit = (reflection: Reflected) => void;

function aNode(name: string, change: Partial<KubeNode> = {}, pods = "2"): KubeNode {
  const metadata = { name, labels: { "kubernetes.io/hostname": name } };
  const allocatable = { cpu: "2", memory: "4Gi", pods };
  return { apiVersion: "v1", kind: "Node", metadata, status: { allocatable }, ...change };
}

function waiting(name: string, metadata: Partial<Pod["metadata"]> = {}, spec = {}): Pod {
  return aPod({ nodeName: "", ...spec }, { name, uid: `uid-${name}`, ...metadata });
}

/** A scheduler whose API server is in memory. */
class World {
  readonly clock = createFakeClock();
  readonly store = createFakeStore();
  readonly log = createFakeLogger();
  readonly claims = createFakeCache<PersistentVolumeClaim>();
  readonly volumes = createFakeCache<PersistentVolume>();
  readonly classes = createFakeCache<StorageClass>();
  readonly events: string[] = [];
  /** Bindings, as pod and node, and what the API server answers to the next ones. */
  readonly bindings: string[] = [];
  readonly refusals: AppError[] = [];
  readonly requests: unknown[] = [];
  readonly stop = new AbortController();
  readonly #watches = new Map<string, Emit>();
  #version = 0;
  #ended: Promise<void> | undefined;

  start(): void {
    const { clock, log, store, claims, volumes, classes } = this;
    const client: Pick<KubeClient, "reflect" | "requestRaw" | "store"> = {
      store,
      reflect: (type, selection) => {
        const { namespace, trim = (object: never) => object } = selection ?? {};
        const trimAll = ({ kind, object, objects }: Reflected): Reflected =>
          objects === undefined
            ? { kind, object: trim(object as never) }
            : { kind, objects: objects.map((each) => trim(each as never)) };
        const key = namespace === undefined ? type.resource : `${type.resource} ${namespace}`;
        const subscribe = (emit: Emit): object => {
          this.#watches.set(key, (reflection) => {
            emit(trimAll(reflection));
          });
          return { unsubscribe: () => this.#watches.delete(key) };
        };
        return { subscribe } as never; // a cache uses nothing else of it
      },
      requestRaw: (request) => {
        this.requests.push(request);
        const refusal = this.refusals.shift();
        if (refusal !== undefined) return Promise.reject(refusal);
        const { metadata, target } = request.body as Record<string, { readonly name: string }>;
        this.bindings.push(`${metadata?.name ?? ""} ${target?.name ?? ""}`);
        return Promise.resolve({ status: 201, text: "" } as never); // nobody reads it
      },
    };
    const recorder = {
      record: ({ metadata }: KubeObject, { type, reason, message }: Note): void => {
        this.events.push([metadata.name, type, reason, message].join(" "));
      },
      flush: () => Promise.resolve(),
    };
    const deps = { clock, log, recorder, nodeName: "b", storage: { claims, volumes, classes } };
    this.#ended = runBinder({ ...deps, client: client as KubeClient }, this.stop.signal);
  }

  /** The first lists. */
  async list(
    nodes: readonly KubeNode[],
    pods: readonly Pod[],
    namespaces: readonly KubeObject[] = [],
  ): Promise<void> {
    for (const pod of pods) this.store.put(PODS, pod);
    this.#watches.get("nodes")?.({ kind: "listed", objects: nodes });
    await settle();
    this.#watches.get("namespaces")?.({ kind: "listed", objects: namespaces });
    this.#watches.get("pods")?.({ kind: "listed", objects: pods });
    await this.rest();
  }

  /** The watch reports that an object was made or changed. */
  async apply(...objects: readonly (KubeNode | Pod)[]): Promise<void> {
    for (const object of objects) {
      this.#version += 1;
      const metadata = { ...object.metadata, resourceVersion: `new-${String(this.#version)}` };
      if (object.kind === "Pod") this.store.put(PODS, { ...object, metadata } as Pod);
      this.#watch(object)?.({ kind: "applied", object: { ...object, metadata } });
    }
    await this.rest();
  }

  async remove(object: KubeNode | Pod): Promise<void> {
    this.#watch(object)?.({ kind: "removed", object });
    await this.rest();
  }

  /** Returns the open watches of namespaces. */
  listObjectWatches(): readonly string[] {
    return [...this.#watches.keys()].filter((key) => key.includes(" "));
  }

  /** The watch of a namespace reports its first list, or a change. */
  async report(key: string, reflection: Reflected): Promise<void> {
    this.#watches.get(key)?.(reflection);
    await this.rest();
  }

  #watch({ kind }: KubeNode | Pod): Emit | undefined {
    return this.#watches.get(kind === "Pod" ? "pods" : "nodes");
  }

  /** Until all that can be done at this time is done. */
  async rest(): Promise<void> {
    for (let turn = 0; turn < 10; turn += 1) await settle();
  }

  async later(ms: number): Promise<void> {
    await this.clock.advance(ms);
    await this.rest();
  }

  async end(): Promise<void> {
    this.stop.abort();
    await this.#ended;
  }
}

let world: World;

beforeEach(() => {
  world = new World();
  world.start();
});

afterEach(() => world.end());

const bound = (pod: Pod, nodeName: string): Pod => ({ ...pod, spec: { ...pod.spec, nodeName } });

describe("a pod without a node", () => {
  test("is bound to a suitable node", async () => {
    await world.list([aNode("b"), aNode("a")], [waiting("x y")]);
    expect(world.requests).toEqual([
      {
        method: "POST",
        path: "/api/v1/namespaces/ns/pods/x%20y/binding",
        body: {
          apiVersion: "v1",
          kind: "Binding",
          metadata: { name: "x y", namespace: "ns", uid: "uid-x y" },
          target: { apiVersion: "v1", kind: "Node", name: "a" },
        },
      },
    ]);
  });

  test("is bound when the first node appears", async () => {
    await world.list([], [waiting("x")]);
    expect([world.bindings, world.events]).toEqual([[], []]);
    await world.apply(aNode("a"));
    expect(world.bindings).toEqual(["x a"]);
  });

  test.each([
    { name: "is being deleted", pod: waiting("x", { deletionTimestamp: "2026-11-28T10:00:00Z" }) },
    { name: "has a node", pod: bound(waiting("x"), "b") },
  ])("is not bound when it $name", async ({ pod }) => {
    await world.list([aNode("a")], [pod]);
    expect([world.requests, world.events]).toEqual([[], []]);
  });

  test("waits if its namespace starts many, and other namespaces do not", async () => {
    const pods = Array.from({ length: 14 }, (_none, index) => waiting(`x${String(index)}`));
    await world.list([aNode("a", {}, "100")], [...pods, waiting("y", { namespace: "other" })]);
    for (let turn = 0; turn < 20; turn += 1) await world.rest();
    expect(world.bindings).toHaveLength(13);
    expect(world.bindings).toContain("y a");
    await world.later(2000);
    expect(world.bindings).toHaveLength(14);
    await world.later(2000);
    expect(world.bindings).toHaveLength(15);
  });

  test.each([
    { what: "a tenant's short-lived pods", wantBound: 4 },
    { what: "short-lived pods of a namespace without the label", label: "a", wantBound: 11 },
    { what: "pods of a tenant that lived for a minute", livedMs: 60_000, wantBound: 11 },
  ])(
    "waits after the end of $what: $wantBound of 11 are bound",
    async ({ label = "patchbay.io/tenant", livedMs = 59_999, wantBound }) => {
      const conditions = [
        { type: "PodScheduled", status: "True", lastTransitionTime: "1970-01-01T00:00:00Z" },
      ] as const;
      const ended = ["a", "b"].map((name) => ({
        ...bound(waiting(name), "a"),
        status: { conditions },
      }));
      const metadata = { name: "ns", labels: { [label]: "" } };
      const namespace = { apiVersion: "v1", kind: "Namespace", metadata };
      await world.list([aNode("a", {}, "100")], ended, [namespace]);
      await world.later(livedMs);
      for (const pod of ended) await world.remove(pod);
      for (let index = 0; index < 11; index += 1) await world.apply(waiting(`x${String(index)}`));
      expect(world.bindings).toHaveLength(wantBound);
      await world.later(10_000);
      expect(world.bindings).toHaveLength(Math.min(11, wantBound + 5));
    },
  );

  test("reports a long wait", async () => {
    const metadata = { name: "ns", labels: { "patchbay.io/tenant": "" } };
    const ended = ["a", "b", "c", "d"].map((name) => bound(waiting(name), "a"));
    await world.list([aNode("a", {}, "100")], ended, [
      { apiVersion: "v1", kind: "Namespace", metadata },
    ]);
    for (const pod of ended) await world.remove(pod);
    await world.apply(waiting("x"));
    expect([world.bindings, world.events]).toEqual([
      [],
      [
        "x Warning FailedScheduling the pod waits, because pods of its namespace ended soon after their start",
      ],
    ]);
    await world.later(10_000);
    expect(world.bindings).toEqual(["x a"]);
  });

  test("retains other conditions and its waiting time when the reason changes", async () => {
    const since = "2026-11-28T09:00:00Z";
    const gate = { type: "example.com/gate", status: "True" } as const;
    const waits = { type: "PodScheduled", status: "False", lastTransitionTime: since } as const;
    const pod = waiting("x", {}, { nodeSelector: { zone: "north" } });
    await world.list([aNode("a")], [{ ...pod, status: { conditions: [gate, waits] } }]);
    const stored = await world.store.find(PODS, { namespace: "ns", name: "x" });
    expect(stored?.status?.conditions).toMatchObject([gate, { ...waits, reason: "Unschedulable" }]);
  });

  test("reports once why it gets no node", async () => {
    const pod = waiting("x", {}, { nodeSelector: { zone: "north" } });
    await world.list([aNode("a")], [pod]);
    const message =
      "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector (zone=north).";
    expect(world.events).toEqual([`x Warning FailedScheduling ${message}`]);
    const stored = await world.store.find(PODS, { namespace: "ns", name: "x" });
    expect(stored?.status?.conditions).toEqual([
      {
        type: "PodScheduled",
        status: "False",
        reason: "Unschedulable",
        message,
        lastTransitionTime: "1970-01-01T00:00:00.000Z",
      },
    ]);
    const other = { type: "Ready", status: "False" } as const;
    const conditions = [other, ...(stored?.status?.conditions ?? [])];
    await world.apply({ ...pod, status: { conditions } });
    expect(world.events).toHaveLength(1);
    await world.apply(aNode("c", {}, "0"));
    expect(world.events).toHaveLength(2);
    await world.apply({ ...pod, status: { conditions: [other] } });
    expect(world.events).toHaveLength(3);
  });
});

describe("a pod with a resource claim", () => {
  const claim = {
    apiVersion: "resource.k8s.io/v1",
    kind: "ResourceClaim",
    metadata: { namespace: "ns", name: "existing", uid: "claim", resourceVersion: "1" },
    spec: {},
  };
  const watch = "resourceclaims ns";

  test("is bound when a watch reports that a driver has allocated the claim", async () => {
    const resourceClaims = [{ name: "nics", resourceClaimName: "existing" }];
    const pod = waiting("x", {}, { resourceClaims });
    await world.list([aNode("a")], [pod]);
    expect([world.events, world.listObjectWatches()]).toEqual([[], [watch]]);
    await world.report(watch, { kind: "listed", objects: [] });
    expect(world.events).toEqual(['x Warning FailedScheduling resourceclaim "existing" not found']);
    await world.later(60_000);
    expect(world.requests).toEqual([]);
    const allocated = { ...claim, status: { allocation: {} } };
    world.store.put(RESOURCE_CLAIMS, allocated);
    const object = await world.store.find(RESOURCE_CLAIMS, claim.metadata);
    await world.report(watch, { kind: "applied", object });
    expect(world.bindings).toEqual(["x a"]);
    await world.apply(bound(pod, "a"));
    expect(world.listObjectWatches()).toEqual([]);
  });

  test("is not waited for after the pod was deleted", async () => {
    const resourceClaims = [{ name: "nics", resourceClaimTemplateName: "nic" }];
    const pod = waiting("x", {}, { resourceClaims });
    await world.list([aNode("a")], [pod]);
    expect(world.listObjectWatches()).toEqual(["resourceclaimtemplates ns"]);
    await world.remove(pod);
    expect(world.listObjectWatches()).toEqual([]);
  });
});

describe("a pod slot on a node", () => {
  const [first, second] = [
    waiting("z", { creationTimestamp: "2026-11-28T09:00:00Z" }),
    waiting("a", { creationTimestamp: "2026-11-28T10:00:00Z" }),
  ];
  const full = /^a Warning FailedScheduling .*Too many pods/;

  test("is occupied by a pod whose binding no watch has reported yet", async () => {
    await world.list([aNode("n", {}, "1")], [first, second]);
    expect([world.bindings, world.events]).toEqual([["z n"], [expect.stringMatching(full)]]);
    await world.apply(bound(first, "n"));
    await world.apply({ ...second, metadata: { ...second.metadata, labels: { app: "x" } } });
    expect(world.bindings).toEqual(["z n"]);
  });

  test.each<{ name: string; act: (pod: Pod) => Promise<void> }>([
    { name: "has ended", act: (pod) => world.apply({ ...pod, status: { phase: "Succeeded" } }) },
    { name: "is deleted", act: (pod) => world.remove(pod) },
  ])("is assigned to the oldest waiting pod when its pod $name", async ({ act }) => {
    const holder = bound(waiting("holder"), "n");
    const third = waiting("b", { creationTimestamp: "2026-11-28T08:00:00Z" });
    await world.list([aNode("n", {}, "1")], [holder, second, first, third]);
    expect(world.bindings).toEqual([]);
    await act(holder);
    expect(world.bindings).toEqual(["b n"]);
  });

  test.each<{ name: string; before: Pod; act: (pod: Pod) => Promise<void> }>([
    {
      name: "a finished pod is deleted",
      before: { ...bound(waiting("old"), "n"), status: { phase: "Failed" } },
      act: (pod) => world.remove(pod),
    },
    {
      name: "a pod that waited is deleted",
      before: waiting("w", {}, { nodeSelector: { zone: "none" } }),
      act: (pod) => world.remove(pod),
    },
    {
      name: "a running pod changes",
      before: bound(waiting("on"), "n"),
      act: (pod) => world.apply(pod),
    },
  ])("is not free because $name", async ({ before: pod, act }) => {
    await world.list([aNode("n", {}, "0")], [pod, second]);
    const before = world.events.filter((event) => event.startsWith("a ")).length;
    await act(pod);
    expect(world.events.filter((event) => event.startsWith("a "))).toHaveLength(before);
  });
});

describe("a binding that the API server rejects", () => {
  const details = { resource: "pods", object: "ns/x" };
  test.each(["KUBE_CONFLICT", "KUBE_NOT_FOUND"] as const)(
    "with %s is not retried",
    async (code) => {
      world.refusals.push(new AppError(code, details));
      await world.list([aNode("n", {}, "1")], [waiting("x")]);
      await world.later(60_000);
      expect(world.requests).toHaveLength(1);
      await world.apply(waiting("y"));
      expect(world.bindings).toEqual(["y n"]);
    },
  );

  test("for another reason is retried", async () => {
    const details = { server: "test", message: "cut off" };
    world.refusals.push(new AppError("KUBE_UNREACHABLE", details));
    await world.list([aNode("n", {}, "1")], [waiting("x")]);
    expect([world.requests.length, world.bindings]).toEqual([1, []]);
    await world.later(60_000);
    expect(world.bindings).toEqual(["x n"]);
  });
});

describe("a pod with a claim", () => {
  const pod = waiting(
    "x",
    { creationTimestamp: "1970-01-01T00:00:00Z" },
    {
      volumes: [{ name: "d", persistentVolumeClaim: { claimName: "data" } }],
    },
  );
  const nodes = [aNode("a"), aNode("b")];
  const fresh = (): PersistentVolumeClaim => {
    const claim = aClaim();
    return { ...claim, metadata: { name: "data", namespace: "ns", uid: "claim" } };
  };

  test("selects the node with the storage, and is bound when the claim is bound", async () => {
    world.classes.put(aClass());
    world.store.put(PERSISTENT_VOLUME_CLAIMS, fresh());
    const key = { namespace: "ns", name: "data" };
    const stored = await world.store.find(PERSISTENT_VOLUME_CLAIMS, key);
    if (stored === undefined) throw new Error("no claim");
    world.claims.put(stored);
    await world.list(nodes, [pod]);
    const selected = await world.store.find(PERSISTENT_VOLUME_CLAIMS, key);
    expect(selected?.metadata.annotations).toEqual({ "volume.kubernetes.io/selected-node": "b" });
    expect([world.bindings, world.events]).toEqual([[], []]);
    world.claims.put({ ...stored, status: { phase: "Bound" } });
    await world.rest();
    expect(world.bindings).toEqual(["x b"]);
  });

  test("reports a claim that stays unbound for long", async () => {
    world.classes.put(aClass());
    world.claims.put(aClaim());
    await world.list(nodes, [pod]);
    expect(world.events).toEqual([]);
    await world.later(29_999);
    expect(world.events).toEqual([]);
    await world.later(1);
    expect(world.events).toEqual([
      'x Warning FailedScheduling persistentvolumeclaim "data" is still not bound; for the reason, run: kubectl describe pvc data',
    ]);
  });

  test("reports a missing class until it exists", async () => {
    world.claims.put(fresh());
    world.store.put(PERSISTENT_VOLUME_CLAIMS, fresh());
    await world.list(nodes, [pod]);
    expect(world.events).toEqual([
      'x Warning FailedScheduling persistentvolumeclaim "data" names storage class "local", which does not exist',
    ]);
    world.classes.put(aClass());
    await world.rest();
    expect(world.store.calls).toContain("patch persistentvolumeclaims ns/data");
  });
});

test("a taint evicts a pod that does not tolerate it", async () => {
  const taints: readonly Taint[] = [{ key: "maintenance", effect: "NoExecute" }];
  await world.list([aNode("n", { spec: { taints } })], [bound(waiting("x"), "n")]);
  expect(world.store.calls).toEqual(["delete pods ns/x"]);
});
