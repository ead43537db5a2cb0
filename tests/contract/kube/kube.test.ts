// SPDX-License-Identifier: Apache-2.0
// Our client, caches and events against our API server, over real TLS and through its restart.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { EVENTS, PODS } from "@patchbay/api";
import type { Pod } from "@patchbay/api/kubernetes";
import { startApiServer } from "@patchbay/apiserver";
import {
  createCache,
  createEventRecorder,
  createKubeClient,
  loadKubeConfig,
  type KubeClient,
} from "@patchbay/kube";
import { createClock } from "@patchbay/os";
import { kubeconfigText } from "@patchbay/pki";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { QUIET, serverOptions } from "../apiserver/harness.ts";

const clock = createClock();
const key = { namespace: "default", name: "one" };

let directory = "";
let client: KubeClient;
let stopServer: () => Promise<void>;
let startServer: () => Promise<void>;

beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), "patchbay-kube-"));
  const { options, authority, admin } = await serverOptions({
    storePath: join(directory, "store.sqlite"),
  });
  const first = await startApiServer(options);
  stopServer = () => first.close();
  startServer = async () => {
    const again = await startApiServer({ ...options, port: first.port });
    stopServer = () => again.close();
  };
  const kubeconfig = join(directory, "kubeconfig");
  const { certPem, keyPem } = admin;
  const { url: server } = first;
  const text = kubeconfigText({ server, caPem: authority.certPem, certPem, keyPem, user: "admin" });
  writeFileSync(kubeconfig, text);
  client = createKubeClient(await loadKubeConfig({ kubeconfig }), { logger: QUIET, clock });
});

afterEach(async () => {
  await client.close();
  await stopServer();
  rmSync(directory, { recursive: true, force: true });
});

function podOf(name: string, labels: Record<string, string> = {}): Pod {
  return {
    apiVersion: "v1",
    kind: PODS.kind,
    metadata: { namespace: "default", name, labels },
    spec: { nodeName: "n1", containers: [{ name: "c", image: "i" }] },
  };
}

/** Waits until `condition` holds, at most ten seconds. */
async function eventually(condition: () => boolean): Promise<void> {
  const signal = AbortSignal.timeout(10_000);
  while (!condition()) await clock.sleep(10, signal);
}

describe("the store", () => {
  test("creates, reads, changes and deletes an object", async () => {
    const { store } = client;
    const made = await store.create(PODS, podOf("one"));
    expect(made.metadata.uid).toBeDefined();
    expect(await store.find(PODS, key)).toEqual(made);
    const labels = { a: "b" };
    const updated = await store.update(PODS, { ...made, metadata: { ...made.metadata, labels } });
    expect(updated.metadata.labels).toEqual(labels);
    const status = await store.patch(
      PODS,
      key,
      { type: "merge", fields: { status: { phase: "Running" } } },
      { subresource: "status" },
    );
    expect(status.status?.phase).toBe("Running");
    expect((await store.list(PODS, { labelSelector: "a=b" })).items).toHaveLength(1);
    await store.delete(PODS, key, { gracePeriodSeconds: 0 });
    await store.delete(PODS, key, { gracePeriodSeconds: 0 });
    expect(await store.find(PODS, key)).toBeUndefined();
  });

  test("distinguishes conflicts from other rejections", async () => {
    const { store } = client;
    const made = await store.create(PODS, podOf("one"));
    await expect(store.create(PODS, podOf("one"))).rejects.toMatchObject({
      code: "KUBE_ALREADY_EXISTS",
    });
    await store.patch(PODS, key, { type: "merge", fields: { metadata: { labels: { x: "1" } } } });
    await expect(store.update(PODS, made)).rejects.toMatchObject({ code: "KUBE_CONFLICT" });
    const stale = { op: "test", path: "/metadata/labels/x", value: "0" } as const;
    const patch = { type: "json", operations: [stale] } as const;
    await expect(store.patch(PODS, key, patch)).rejects.toMatchObject({ code: "KUBE_CONFLICT" });
    await expect(store.delete(PODS, key, { uid: "other" })).rejects.toMatchObject({
      code: "KUBE_CONFLICT",
    });
    const other = { group: "", version: "v1", resource: "things", kind: "Thing", namespaced: true };
    await expect(store.find(other, key)).rejects.toMatchObject({ code: "KUBE_NOT_FOUND" });
  });
});

describe("a cache", () => {
  test("is in sync before, during and after a restart of the server", async () => {
    const { store } = client;
    const source = client.reflect(PODS, { namespace: "default" });
    const cache = createCache(source, {
      logger: QUIET,
      indexes: { node: (pod) => (pod.spec.nodeName === undefined ? [] : [pod.spec.nodeName]) },
    });
    const changes: string[] = [];
    cache.onChange((change) => {
      const object = change.kind === "deleted" ? change.previous : change.current;
      changes.push(`${change.kind} ${object.metadata.name}`);
    });
    await store.create(PODS, podOf("one"));
    const abort = new AbortController();
    cache.start(abort.signal);
    await cache.synced();
    expect(cache.listBy("node", "n1")).toHaveLength(1);
    await store.create(PODS, podOf("two"));
    await eventually(() => changes.length === 2);
    await stopServer();
    await startServer();
    await store.create(PODS, podOf("three"));
    await store.delete(PODS, key, { gracePeriodSeconds: 0 });
    await eventually(() => cache.list().length === 2 && changes.includes("added three"));
    abort.abort();
    expect(cache.list().map(({ metadata }) => metadata.name)).toEqual(["three", "two"]);
    expect(changes.filter((change) => change.startsWith("added"))).toEqual([
      "added one",
      "added two",
      "added three",
    ]);
  });

  test("contains only selected objects", async () => {
    const { store } = client;
    const cache = createCache(client.reflect(PODS, { labelSelector: "a=b" }), { logger: QUIET });
    const abort = new AbortController();
    cache.start(abort.signal);
    await cache.synced();
    await store.create(PODS, podOf("one"));
    await store.create(PODS, podOf("two", { a: "b" }));
    await eventually(() => cache.list().length === 1);
    // Losing the label is a deletion for a watch with that selector.
    const fields = { metadata: { labels: { a: null } } };
    await store.patch(PODS, { ...key, name: "two" }, { type: "merge", fields });
    await eventually(() => cache.list().length === 0);
    abort.abort();
    expect(cache.list()).toEqual([]);
  });
});

describe("events", () => {
  test("are written once and counted", async () => {
    const { store } = client;
    const pod = await store.create(PODS, podOf("one"));
    const recorder = createEventRecorder({ store, clock, logger: QUIET, component: "test" });
    const note = { type: "Warning", reason: "CniFailed", message: "no lease" } as const;
    for (let i = 0; i < 5; i += 1) recorder.record(pod, note);
    await recorder.flush();
    const { items } = await store.list(EVENTS, { namespace: "default" });
    expect(items).toMatchObject([
      { reason: "CniFailed", count: 5, involvedObject: { name: "one" } },
    ]);
  });
});
