// SPDX-License-Identifier: Apache-2.0
// What the collector deletes, keeps and reports.
import { describe, expect, test } from "vitest";
import type { KubeObject, Meta } from "../objects/object.ts";
import { widgetDefinition } from "../testing/objects.ts";
import { type ControllerTest, startControllerTest } from "../testing/test-controllers.ts";
import { type TestServer, runTurns } from "../testing/test-server.ts";
import { startGarbageCollector } from "./garbage-collector.ts";

const NOW = "2026-01-01T00:00:00Z";

interface Owner {
  readonly name: string;
  readonly kind?: string;
  readonly apiVersion?: string;
  readonly uid?: string;
  readonly blocks?: boolean;
}

function aMap(name: string, owners: readonly Owner[] = [], more: Partial<Meta> = {}): KubeObject {
  const ownerReferences = owners.map((owner) => ({
    apiVersion: owner.apiVersion ?? "v1",
    kind: owner.kind ?? "ConfigMap",
    name: owner.name,
    uid: owner.uid ?? `uid-${owner.name}`,
    ...(owner.blocks === undefined ? {} : { blockOwnerDeletion: owner.blocks }),
  }));
  const owned = ownerReferences.length === 0 ? {} : { ownerReferences };
  const metadata = { name, namespace: "default", uid: `uid-${name}`, ...owned, ...more };
  return { apiVersion: "v1", kind: "ConfigMap", metadata };
}

function names(server: TestServer, namespace = "default"): readonly string[] {
  return server.deps.store
    .list({ bucket: "/configmaps", namespace })
    .map(({ address }) => address.name);
}

async function startWith(...maps: readonly KubeObject[]): Promise<ControllerTest> {
  const given = await startControllerTest();
  await given.server.put("configmaps", ...maps);
  await given.start(startGarbageCollector);
  return given;
}

async function remove(server: TestServer, name: string, policy: string): Promise<void> {
  const path = `/api/v1/namespaces/default/configmaps/${name}`;
  const { code } = await server.send("DELETE", path, { body: { propagationPolicy: policy } });
  expect(code).toBe(200);
  await runTurns(60);
}

describe("at startup", () => {
  test.each<{ name: string; maps: KubeObject[]; want: string[] }>([
    { name: "retains objects without owners", maps: [aMap("a")], want: ["a"] },
    {
      name: "retains an object with an existing owner",
      maps: [aMap("a"), aMap("b", [{ name: "a" }])],
      want: ["a", "b"],
    },
    {
      name: "deletes an object with a deleted owner",
      maps: [aMap("b", [{ name: "a" }])],
      want: [],
    },
    {
      name: "deletes an object whose owner was recreated",
      maps: [aMap("a"), aMap("b", [{ name: "a", uid: "old" }])],
      want: ["a"],
    },
    {
      name: "deletes the dependents of a deleted object",
      maps: [aMap("b", [{ name: "a" }]), aMap("c", [{ name: "b" }]), aMap("d", [{ name: "c" }])],
      want: [],
    },
    {
      name: "retains an object with an owner of an unknown kind",
      maps: [aMap("b", [{ name: "a" }, { name: "x", kind: "Nope" }])],
      want: ["b"],
    },
    {
      name: "deletes an object in foreground after its dependents",
      maps: [aMap("a", [], { deletionTimestamp: NOW, finalizers: ["foregroundDeletion"] })],
      want: [],
    },
    {
      name: "deletes an object that orphans its dependents and retains the dependents",
      maps: [
        aMap("a", [], { deletionTimestamp: NOW, finalizers: ["orphan"] }),
        aMap("b", [{ name: "a" }]),
      ],
      want: ["b"],
    },
    {
      name: "retains an object with an unrelated finalizer",
      maps: [aMap("a", [], { deletionTimestamp: NOW, finalizers: ["test.io/x"] })],
      want: ["a"],
    },
  ])("$name", async ({ maps, want }) => {
    await using given = await startWith(...maps);
    await runTurns(60);
    expect(names(given.server)).toEqual(want);
  });

  test("an object without an owner is deleted after its dependents if it has the finalizer", async () => {
    await using given = await startWith(
      aMap("b", [{ name: "gone" }], { finalizers: ["foregroundDeletion"] }),
      aMap("c", [{ name: "b", blocks: true }], { finalizers: ["test.io/x"] }),
    );
    await runTurns(60);
    const waiting = given.server.stored("configmaps", "b")?.metadata;
    expect(waiting?.deletionTimestamp).toBeDefined();
    expect(waiting?.finalizers).toEqual(["foregroundDeletion"]);
    expect(given.server.stored("configmaps", "c")?.metadata.deletionTimestamp).toBeDefined();
  });

  test("an object loses deleted owners and retains the others", async () => {
    await using given = await startWith(aMap("a"), aMap("b", [{ name: "a" }, { name: "gone" }]));
    const owners = given.server.stored("configmaps", "b")?.metadata.ownerReferences;
    expect(owners?.map(({ name }) => name)).toEqual(["a"]);
  });

  test("never collects events", async () => {
    await using given = await startControllerTest();
    const event = { ...aMap("e", [{ name: "gone" }]), kind: "Event" };
    await given.server.put("events", event);
    await given.start(startGarbageCollector);
    expect(given.server.stored("events", "e")).toBeDefined();
  });
});

describe("deletion of an owner", () => {
  const family = [
    aMap("a"),
    aMap("b", [{ name: "a", blocks: true }]),
    aMap("c", [{ name: "b", blocks: true }]),
    aMap("z"),
  ];

  test("in the background deletes its dependents", async () => {
    await using given = await startWith(...family);
    await remove(given.server, "a", "Background");
    expect(names(given.server)).toEqual(["z"]);
  });

  test("in the foreground deletes its dependents first", async () => {
    await using given = await startWith(...family);
    const order: string[] = [];
    given.server.deps.store.subscribe((changes) => {
      for (const { type, current } of changes) {
        if (type === "DELETED") order.push(current.address.name);
      }
    });
    await remove(given.server, "a", "Foreground");
    expect(order).toEqual(["c", "b", "a"]);
    expect(names(given.server)).toEqual(["z"]);
  });

  test("with orphan propagation removes the owner reference of its dependents", async () => {
    await using given = await startWith(...family);
    await remove(given.server, "a", "Orphan");
    expect(names(given.server)).toEqual(["b", "c", "z"]);
    expect(given.server.stored("configmaps", "b")?.metadata.ownerReferences).toBeUndefined();
    expect(given.server.stored("configmaps", "c")?.metadata.ownerReferences).toHaveLength(1);
  });

  test("in the foreground waits until a blocking dependent is deleted", async () => {
    await using given = await startWith(
      aMap("a"),
      aMap("b", [{ name: "a", blocks: true }], { finalizers: ["test.io/x"] }),
    );
    const { server } = given;
    await remove(server, "a", "Foreground");
    expect(names(server)).toEqual(["a", "b"]);
    expect(server.stored("configmaps", "b")?.metadata.deletionTimestamp).toBeDefined();
    const path = "/api/v1/namespaces/default/configmaps/b";
    await server.send("PATCH", path, { body: { metadata: { finalizers: null } } });
    await runTurns(60);
    expect(names(server)).toEqual([]);
  });

  test("in the foreground continues when the dependent no longer blocks it", async () => {
    await using given = await startWith(
      aMap("a"),
      aMap("b", [{ name: "a", blocks: true }], { finalizers: ["test.io/x"] }),
    );
    const { server } = given;
    await remove(server, "a", "Foreground");
    const path = "/api/v1/namespaces/default/configmaps/b";
    await server.send("PATCH", path, { body: { metadata: { ownerReferences: null } } });
    await runTurns(60);
    expect(names(server)).toEqual(["b"]);
  });

  test("in the foreground does not wait for a dependent that does not block it", async () => {
    await using given = await startWith(
      aMap("a"),
      aMap("b", [{ name: "a" }], { finalizers: ["test.io/x"] }),
    );
    await remove(given.server, "a", "Foreground");
    expect(names(given.server)).toEqual(["b"]);
  });

  test("leaves an object to its second owner, without the reference to the first", async () => {
    await using given = await startWith(
      aMap("a"),
      aMap("z"),
      aMap("b", [{ name: "a" }, { name: "z" }]),
    );
    await remove(given.server, "a", "Background");
    expect(names(given.server)).toEqual(["b", "z"]);
    const owners = given.server.stored("configmaps", "b")?.metadata.ownerReferences;
    expect(owners?.map(({ name }) => name)).toEqual(["z"]);
  });

  test("in the foreground continues when two objects own each other", async () => {
    await using given = await startWith(
      aMap("a", [{ name: "b", blocks: true }]),
      aMap("b", [{ name: "a", blocks: true }]),
    );
    await remove(given.server, "a", "Foreground");
    expect(names(given.server)).toEqual([]);
  });
});

test("a dependent with the orphan finalizer retains its own dependents", async () => {
  await using given = await startWith(
    aMap("a"),
    aMap("b", [{ name: "a" }], { finalizers: ["orphan"] }),
    aMap("c", [{ name: "b" }]),
  );
  await remove(given.server, "a", "Background");
  expect(names(given.server)).toEqual(["c"]);
});

test("deletes a new object whose owner never existed", async () => {
  await using given = await startWith();
  await given.server.put("configmaps", aMap("b", [{ name: "a" }]));
  await runTurns(40);
  expect(names(given.server)).toEqual([]);
});

test("deletes an object that gets an owner that does not exist", async () => {
  await using given = await startWith(aMap("b"));
  await given.server.put("configmaps", aMap("b", [{ name: "a" }]));
  await runTurns(40);
  expect(names(given.server)).toEqual([]);
});

test("an owner in another namespace counts as missing, and an event reports it", async () => {
  await using given = await startWith(aMap("a", [], { namespace: "other" }));
  const { server } = given;
  await server.put("configmaps", aMap("b", [{ name: "a" }]));
  await runTurns(60);
  expect([names(server), names(server, "other")]).toEqual([[], ["a"]]);
  expect(server.stored("events", "b.uid-a")).toMatchObject({
    type: "Warning",
    reason: "OwnerRefInvalidNamespace",
    message:
      'ownerRef [v1/ConfigMap, namespace: default, name: a, uid: uid-a] does not exist in namespace "default"',
    involvedObject: {
      apiVersion: "v1",
      kind: "ConfigMap",
      namespace: "default",
      name: "b",
      uid: "uid-b",
    },
    source: { component: "garbage-collector-controller" },
    count: 1,
    firstTimestamp: "1970-01-01T00:00:00Z",
  });
});

test("retains a cluster-scoped object with a namespaced owner, and reports each time in an event", async () => {
  await using given = await startWith(aMap("a"));
  const { server } = given;
  const { metadata } = aMap("n", [{ name: "a" }], { namespace: undefined as never });
  const node = {
    apiVersion: "v1",
    kind: "Node",
    metadata: JSON.parse(JSON.stringify(metadata)) as Meta,
  };
  await server.put("nodes", node);
  await runTurns(40);
  await server.clock.advance(60_000);
  await server.put("nodes", { ...node, spec: { podCIDR: "10.0.0.0/24" } });
  await runTurns(40);
  expect(server.stored("nodes", "n", "")).toBeDefined();
  expect(server.stored("events", "n.uid-a")).toMatchObject({
    involvedObject: { kind: "Node", name: "n" },
    count: 2,
    firstTimestamp: "1970-01-01T00:00:00Z",
    lastTimestamp: "1970-01-01T00:01:00Z",
  });
});

test("checks an object again when its owner's kind is served again", async () => {
  await using given = await startWith(
    aMap("b", [{ name: "w", kind: "Widget", apiVersion: "test.io/v1", uid: "w1" }]),
  );
  expect(names(given.server)).toEqual(["b"]);
  await given.server.put("apiextensions.k8s.io/customresourcedefinitions", widgetDefinition());
  await runTurns(60);
  expect(names(given.server)).toEqual([]);
});

test("deletes an object of a deleted owner even if the owner's kind no longer exists", async () => {
  await using given = await startControllerTest();
  const { server } = given;
  const definitions = "apiextensions.k8s.io/customresourcedefinitions";
  await server.put(definitions, widgetDefinition());
  const widget = {
    apiVersion: "test.io/v1",
    kind: "Widget",
    metadata: { name: "w", namespace: "default", uid: "uid-w" },
  };
  await server.put("test.io/widgets", widget);
  await server.put(
    "configmaps",
    aMap("b", [{ name: "w", kind: "Widget", apiVersion: "test.io/v1" }]),
  );
  await given.start(startGarbageCollector);
  await server.deps.store.write((transaction) => {
    transaction.remove({ bucket: "test.io/widgets", namespace: "default", name: "w" }, widget);
    transaction.remove(
      { bucket: definitions, namespace: "", name: "widgets.test.io" },
      widgetDefinition(),
    );
  });
  await runTurns(60);
  expect(names(server)).toEqual([]);
});

test("collects nothing after its stop", async () => {
  await using given = await startWith(aMap("a"), aMap("b", [{ name: "a" }]));
  given.stop();
  await remove(given.server, "a", "Background");
  expect(names(given.server)).toEqual(["b"]);
});
