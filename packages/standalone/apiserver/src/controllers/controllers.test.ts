// SPDX-License-Identifier: Apache-2.0
// Controllers of namespaces and nodes, each on a server in memory.
import { describe, expect, test } from "vitest";
import type { KubeObject, Meta } from "../objects/object.ts";
import { startControllerTest } from "../testing/test-controllers.ts";
import { runTurns } from "../testing/test-server.ts";
import { createStandardNamespaces } from "./namespace-contents.ts";
import { startNamespaceLifecycle } from "./namespace-lifecycle.ts";
import { startNodeLifecycle } from "./node-lifecycle.ts";

const NOW = "2026-01-01T00:00:00Z";
const TERMINATING = { deletionTimestamp: NOW };

function anObject(
  kind: string,
  metadata: Partial<Meta> & { readonly name: string },
  more: Record<string, unknown> = {},
): KubeObject {
  return {
    apiVersion: "v1",
    kind,
    metadata: { uid: `uid-${metadata.name}`, ...metadata },
    ...more,
  };
}

function terminatingNamespace(finalizers: readonly string[] = ["kubernetes"]): KubeObject {
  return anObject(
    "Namespace",
    { name: "old", ...TERMINATING },
    {
      spec: { finalizers },
      status: { phase: "Terminating" },
    },
  );
}

describe("the lifecycle of namespaces", () => {
  const map = (name: string, more: Partial<Meta> = {}) =>
    anObject("ConfigMap", { name, namespace: "old", ...more });

  test("empties a namespace that is being deleted, then releases it", async () => {
    await using given = await startControllerTest();
    const { server } = given;
    await server.put(
      "configmaps",
      map("a"),
      map("b"),
      anObject("ConfigMap", { name: "c", namespace: "default" }),
    );
    await server.put("namespaces", terminatingNamespace());
    await given.start(startNamespaceLifecycle);
    await runTurns(40);
    expect(server.stored("configmaps", "a", "old")).toBeUndefined();
    expect(server.stored("configmaps", "c")).toBeDefined();
    expect(server.stored("namespaces", "old", "")).toBeUndefined();
    expect(server.stored("namespaces", "default", "")).toBeDefined();
  });

  test("reports remaining objects, and continues when they are deleted", async () => {
    await using given = await startControllerTest();
    const { server } = given;
    await given.start(startNamespaceLifecycle);
    await server.clock.advance(5000);
    await server.put("configmaps", map("a"), map("b", { finalizers: ["test.io/x"] }));
    await server.put("namespaces", terminatingNamespace());
    await runTurns(40);
    expect(server.stored("namespaces", "old", "")?.["status"]).toMatchObject({
      phase: "Terminating",
      conditions: [
        {
          type: "NamespaceDeletionDiscoveryFailure",
          status: "False",
          lastTransitionTime: "1970-01-01T00:00:05Z",
        },
        { type: "NamespaceDeletionGroupVersionParsingFailure", status: "False" },
        { type: "NamespaceDeletionContentFailure", status: "False" },
        {
          type: "NamespaceContentRemaining",
          status: "True",
          reason: "SomeResourcesRemain",
          message: "Some resources are remaining: configmaps. has 1 resource instances",
        },
        {
          type: "NamespaceFinalizersRemaining",
          status: "True",
          message:
            "Some content in the namespace has finalizers remaining: test.io/x in 1 resource instances",
        },
      ],
    });
    const path = "/api/v1/namespaces/old/configmaps/b";
    await server.send("PATCH", path, { body: { metadata: { finalizers: null } } });
    await runTurns(40);
    expect(server.stored("namespaces", "old", "")).toBeUndefined();
  });

  test("preserves finalizers of other controllers", async () => {
    await using given = await startControllerTest();
    await given.server.put("namespaces", terminatingNamespace(["kubernetes", "test.io/y"]));
    await given.start(startNamespaceLifecycle);
    expect(given.server.stored("namespaces", "old", "")?.["spec"]).toEqual({
      finalizers: ["test.io/y"],
    });
  });

  test("stops with the server", async () => {
    await using given = await startControllerTest();
    await given.start(startNamespaceLifecycle);
    given.stop();
    await given.server.put("namespaces", terminatingNamespace());
    await runTurns(40);
    expect(given.server.stored("namespaces", "old", "")).toBeDefined();
  });
});

test("creates missing standard namespaces", async () => {
  await using given = await startControllerTest();
  const { server } = given;
  await given.start(createStandardNamespaces);
  expect(server.stored("namespaces", "kube-system", "")).toMatchObject({
    apiVersion: "v1",
    kind: "Namespace",
    metadata: { name: "kube-system", creationTimestamp: "1970-01-01T00:00:00Z" },
    spec: { finalizers: ["kubernetes"] },
  });
  const names = server.deps.store
    .list({ bucket: "/namespaces" })
    .map(({ address }) => address.name);
  expect(names).toEqual(["default", "kube-node-lease", "kube-public", "kube-system", "other"]);
  expect(server.stored("namespaces", "default", "")?.metadata.uid).toBe("uid-default");
});

describe("the lifecycle of nodes", () => {
  const node = (heartbeat: string) =>
    anObject(
      "Node",
      { name: "n1" },
      {
        status: { conditions: [{ type: "Ready", status: "True", lastHeartbeatTime: heartbeat }] },
      },
    );
  const lease = (renewTime: string, namespace = "kube-node-lease") => ({
    ...anObject("Lease", { name: "n1", namespace }, { spec: { renewTime } }),
    apiVersion: "coordination.k8s.io/v1",
  });
  const LEASES = "coordination.k8s.io/leases";

  async function ready(seen: Awaited<ReturnType<typeof startControllerTest>>): Promise<string> {
    await runTurns(10);
    const status = seen.server.stored("nodes", "n1", "")?.["status"] as {
      conditions: { type: string; status: string }[];
    };
    return status.conditions.find(({ type }) => type === "Ready")?.status ?? "";
  }

  test.each<{
    name: string;
    sign: { bucket: string; object: KubeObject } | undefined;
    want: string;
  }>([
    { name: "nothing", sign: undefined, want: "Unknown" },
    { name: "a renewed lease", sign: { bucket: LEASES, object: lease("2") }, want: "True" },
    { name: "an unchanged lease", sign: { bucket: LEASES, object: lease("1") }, want: "Unknown" },
    {
      name: "a lease in another namespace",
      sign: { bucket: LEASES, object: lease("2", "default") },
      want: "Unknown",
    },
    { name: "a new heartbeat", sign: { bucket: "nodes", object: node("2") }, want: "True" },
    { name: "an old heartbeat", sign: { bucket: "nodes", object: node("1") }, want: "Unknown" },
  ])("a node is $want 40 s after its start and 39 s after $name", async ({ sign, want }) => {
    await using given = await startControllerTest();
    const { server } = given;
    await server.put("nodes", node("1"));
    await server.put(LEASES, lease("1"), lease("1", "default"));
    await given.start(startNodeLifecycle);
    await server.clock.advance(1000);
    if (sign !== undefined) await server.put(sign.bucket, sign.object);
    await server.clock.advance(38_999);
    expect(await ready(given)).toBe("True");
    await server.clock.advance(1);
    expect(await ready(given)).toBe(want);
    await server.clock.advance(1000);
    expect(await ready(given)).toBe("Unknown");
  });

  test("a new node has a grace period, and a deleted node is not written", async () => {
    await using given = await startControllerTest();
    const { server } = given;
    await given.start(startNodeLifecycle);
    await server.put("nodes", node("1"));
    expect(server.clock.dueMs).toEqual([40_000]);
    await server.deps.store.write((transaction) => {
      transaction.remove({ bucket: "/nodes", namespace: "", name: "n1" }, node("1"));
    });
    expect(server.clock.dueMs).toEqual([]);
  });

  test("has no pending timers after its stop", async () => {
    await using given = await startControllerTest();
    await given.server.put("nodes", node("1"));
    await given.start(startNodeLifecycle);
    given.stop();
    await given.server.put("nodes", node("2"));
    expect(given.server.clock.dueMs).toEqual([]);
  });

  test("the deletion of a lease does not count as a heartbeat", async () => {
    await using given = await startControllerTest();
    const { server } = given;
    await server.put("nodes", node("1"));
    await server.put(LEASES, lease("1"));
    await given.start(startNodeLifecycle);
    await server.clock.advance(1000);
    await server.deps.store.write((transaction) => {
      transaction.remove({ bucket: LEASES, namespace: "kube-node-lease", name: "n1" }, lease("1"));
    });
    expect(server.clock.dueMs).toEqual([40_000]);
  });
});
