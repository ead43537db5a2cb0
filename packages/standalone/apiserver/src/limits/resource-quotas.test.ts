// SPDX-License-Identifier: Apache-2.0
// Quotas on a server in memory: what they refuse, and how they count.
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { startQuotaStatus } from "../controllers/computed-status.ts";
import type { Fields } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import { aPod, widgetDefinition } from "../testing/objects.ts";
import { type Answer, type TestServer, runTurns, startTestServer } from "../testing/test-server.ts";
import { ResourceQuotas } from "./resource-quotas.ts";

const NAMESPACE = "/api/v1/namespaces/default";
const QUOTAS = "/resourcequotas";

let server: TestServer;
beforeEach(async () => {
  server = await startTestServer();
});
afterEach(async () => {
  await server.close();
});

function aQuota(hard: Fields, more: Fields = {}, name = "q"): KubeObject {
  return {
    apiVersion: "v1",
    kind: "ResourceQuota",
    metadata: { name, namespace: "default", uid: `uid-${name}` },
    spec: { hard, ...more },
  };
}

function create(resource: string, name: string, fields: Fields = {}): Promise<Answer> {
  return server.send("POST", `${NAMESPACE}/${resource}`, {
    body: { metadata: { name }, ...fields },
  });
}

function createPod(name: string, resources: Fields = {}, more: Fields = {}): Promise<Answer> {
  return create("pods", name, {
    spec: { containers: [{ name: "c", image: "i", resources }], ...more },
  });
}

function usedOf(quotas = server.deps.resourceQuotas, name = "q"): unknown {
  return quotas.findStatus({ bucket: QUOTAS, namespace: "default", name })?.["used"];
}

function refusal(subject: string, text: string) {
  return { code: 403, body: { reason: "Forbidden", message: `${subject} is forbidden: ${text}` } };
}

describe("a write beyond a quota is refused", () => {
  test("names what it requests, what is in use, and the limits", async () => {
    await server.put(
      "resourcequotas",
      aQuota({ pods: "5", "requests.cpu": "1", "requests.memory": "1Gi" }),
    );
    const requests = { cpu: "600m", memory: "600Mi" };
    expect((await createPod("a", { requests })).code).toBe(201);
    expect(await createPod("b", { requests })).toMatchObject(
      refusal(
        'pods "b"',
        "exceeded quota: q, requested: requests.cpu=600m,requests.memory=600Mi, used: requests.cpu=600m,requests.memory=600Mi, limited: requests.cpu=1,requests.memory=1Gi",
      ),
    );
    expect((await createPod("c", { requests: { cpu: "400m", memory: "424Mi" } })).code).toBe(201);
  });

  test("requires amounts that the quota limits", async () => {
    await server.put("resourcequotas", aQuota({ "requests.cpu": "1" }));
    expect(await createPod("a")).toMatchObject(
      refusal('pods "a"', "failed quota: q: must specify requests.cpu for: c"),
    );
  });

  test("counts custom resources, and other namespaces on their own", async () => {
    await server.put("apiextensions.k8s.io/customresourcedefinitions", widgetDefinition());
    await server.put("resourcequotas", aQuota({ "count/widgets.test.io": "1" }));
    const post = (namespace: string, version: string, name: string) =>
      server.send("POST", `/apis/test.io/${version}/namespaces/${namespace}/widgets`, {
        body: { apiVersion: `test.io/${version}`, kind: "Widget", metadata: { name } },
      });
    expect((await post("default", "v1", "a")).code).toBe(201);
    expect(await post("default", "v2", "b")).toMatchObject(
      refusal(
        'widgets.test.io "b"',
        "exceeded quota: q, requested: count/widgets.test.io=1, used: count/widgets.test.io=1, limited: count/widgets.test.io=1",
      ),
    );
    expect((await post("other", "v1", "b")).code).toBe(201);
  });

  test("also of devices, and of affinity to other namespaces", async () => {
    const scopes = ["CrossNamespacePodAffinity"];
    await server.put(
      "resourcequotas",
      aQuota({ "requests.devices.kubevirt.io/tun": "2" }, {}, "devices"),
      aQuota({ pods: "0" }, { scopes }, "affinity"),
    );
    const tun = (count: string) => ({ limits: { "devices.kubevirt.io/tun": count } });
    expect(await createPod("a", tun("3"))).toMatchObject({ code: 403 });
    expect(await createPod("a", tun("2"))).toMatchObject({ code: 201 });
    const term = { topologyKey: "kubernetes.io/hostname", labelSelector: {} };
    const withTerm = (more: Fields) => ({
      affinity: {
        podAntiAffinity: { requiredDuringSchedulingIgnoredDuringExecution: [{ ...term, ...more }] },
      },
    });
    expect((await createPod("b", {}, withTerm({}))).code).toBe(201);
    expect(await createPod("c", {}, withTerm({ namespaceSelector: {} }))).toMatchObject(
      refusal(
        'pods "c"',
        "exceeded quota: affinity, requested: pods=1, used: pods=0, limited: pods=0",
      ),
    );
  });

  test("also an update that needs more", async () => {
    await server.put("resourcequotas", aQuota({ "services.nodeports": "1" }));
    const port = (number: number) => ({ name: `p${String(number)}`, port: number });
    const spec = { type: "NodePort", ports: [port(1)] };
    expect((await create("services", "s", { spec })).code).toBe(201);
    const body = { spec: { ports: [port(1), port(2)] } };
    expect(await server.send("PATCH", `${NAMESPACE}/services/s`, { body })).toMatchObject(
      refusal(
        'services "s"',
        "exceeded quota: q, requested: services.nodeports=1, used: services.nodeports=1, limited: services.nodeports=1",
      ),
    );
    await server.send("PATCH", `${NAMESPACE}/services/s`, {
      body: { spec: { type: "ClusterIP" } },
    });
    expect(usedOf()).toEqual({ "services.nodeports": "0" });
  });

  test("in a dry run too, which counts nothing", async () => {
    await server.put("resourcequotas", aQuota({ configmaps: "1" }));
    const dryRun = () => create("configmaps?dryRun=All", "a");
    expect((await dryRun()).code).toBe(201);
    expect((await create("configmaps", "a")).code).toBe(201);
    expect((await create("configmaps?dryRun=All", "b")).code).toBe(403);
  });

  test("but not a write that uses less than before in a namespace beyond its quota", async () => {
    const resources = { requests: { storage: "5Gi" } };
    const spec = { accessModes: ["ReadWriteOnce"], resources };
    await create("persistentvolumeclaims", "c", { spec });
    await server.put("resourcequotas", aQuota({ "requests.storage": "1Gi" }));
    const body = { metadata: { labels: { a: "b" } } };
    const path = `${NAMESPACE}/persistentvolumeclaims/c`;
    expect((await server.send("PATCH", path, { body })).code).toBe(200);
    expect(usedOf()).toEqual({ "requests.storage": "5Gi" });
  });
});

describe("stored bytes", () => {
  const hard = (bytes: number) => ({ "patchbay.io/stored-bytes": String(bytes) });
  const map = (length: number) => ({ data: { k: "x".repeat(length) } });
  const grow = (length: number) =>
    server.send("PATCH", `${NAMESPACE}/configmaps/a`, { body: map(length) });

  test("limit new objects", async () => {
    await server.put("resourcequotas", aQuota(hard(20_000)));
    expect((await create("configmaps", "a", map(10_000))).code).toBe(201);
    const { code, body } = await create("configmaps", "b", map(10_000));
    expect([code, body.message]).toEqual([
      403,
      expect.stringMatching(
        /exceeded quota: q, requested: patchbay.io\/stored-bytes=10\d{3}, used: patchbay.io\/stored-bytes=10\d{3}, limited: patchbay.io\/stored-bytes=20k$/,
      ),
    ]);
    expect((await create("configmaps", "b", map(5000))).code).toBe(201);
  });

  test("limit growth, except small growth for which an eighth is reserved", async () => {
    await server.put("resourcequotas", aQuota(hard(20_000)));
    expect((await create("configmaps", "a", map(19_000))).code).toBe(201);
    expect((await grow(21_000)).code).toBe(200);
    expect((await create("configmaps", "b")).code).toBe(403);
    expect((await grow(30_000)).code).toBe(403);
    expect((await grow(100)).code).toBe(200);
    expect((await create("configmaps", "b")).code).toBe(201);
  });

  test("count 24 bytes for each value", async () => {
    await server.put("resourcequotas", aQuota(hard(100_000)));
    const keys = Array.from({ length: 1000 }, (_none, index) => `k${String(index)}`);
    const data = Object.fromEntries(keys.map((key) => [key, ""]));
    expect((await create("configmaps", "a", { data })).code).toBe(201);
    const length = server.deps.store.find({
      bucket: "/configmaps",
      namespace: "default",
      name: "a",
    })?.text.length;
    expect(length).toBeLessThan(10_100);
    expect(usedOf()).toEqual({ "patchbay.io/stored-bytes": "36Ki" });
  });

  test("do not limit a status, but count it", async () => {
    await server.put("pods", aPod("p"));
    await server.put("resourcequotas", aQuota(hard(1000)));
    const body = { status: { message: "x".repeat(20_000) } };
    const path = `${NAMESPACE}/pods/p/status`;
    expect((await server.send("PATCH", path, { body })).code).toBe(200);
    expect(usedOf()).toEqual({ "patchbay.io/stored-bytes": "24Ki" });
  });
});

test("concurrent creations never exceed a quota together, and rejected ones do not count", async () => {
  await server.put("resourcequotas", aQuota({ configmaps: "5", "count/configmaps": "7" }));
  const names = Array.from({ length: 30 }, (_, index) => `m${String(index % 25)}`);
  const answers = await Promise.all(names.map((name) => create("configmaps", name)));
  expect(answers.filter(({ code }) => code === 201)).toHaveLength(5);
  expect(usedOf()).toEqual({ configmaps: "5", "count/configmaps": "5" });
});

test("a creation does not list the namespace", async () => {
  await server.put(
    "resourcequotas",
    aQuota({ configmaps: "5", "patchbay.io/stored-bytes": "1Mi" }),
  );
  const list = vi.spyOn(server.deps.store, "list");
  expect((await create("configmaps", "a")).code).toBe(201);
  expect(list).not.toHaveBeenCalled();
});

test("deleted objects and ended pods free their usage", async () => {
  await server.put("resourcequotas", aQuota({ pods: "1", "count/pods": "9", "requests.cpu": "1" }));
  const requests = { cpu: "1" };
  expect((await createPod("a", { requests })).code).toBe(201);
  expect((await createPod("b", { requests })).code).toBe(403);
  await server.send("PATCH", `${NAMESPACE}/pods/a/status`, {
    body: { status: { phase: "Failed" } },
  });
  expect((await createPod("b", { requests })).code).toBe(201);
  expect(usedOf()).toEqual({ pods: "1", "count/pods": "2", "requests.cpu": "1" });
  for (const name of ["a", "b"]) await server.send("DELETE", `${NAMESPACE}/pods/${name}`);
  expect(usedOf()).toEqual({ pods: "0", "count/pods": "0", "requests.cpu": "0" });
});

test("the usage is the same as after a restart, whatever was written", async () => {
  const hard = {
    pods: "4",
    "requests.cpu": "3",
    configmaps: "6",
    "count/resourcequotas": "9",
    "patchbay.io/stored-bytes": "1Mi",
  };
  await server.put(
    "resourcequotas",
    aQuota(hard),
    aQuota({ pods: "2" }, { scopes: ["Terminating"] }, "t"),
  );
  const step = fc.record({
    action: fc.constantFrom("create", "delete", "end", "deadline", "map", "unmap", "hard"),
    name: fc.constantFrom("a", "b", "c"),
    cpu: fc.constantFrom("1", "250m", "0"),
  });
  type Run = (name: string, cpu: string) => Promise<unknown>;
  const runs: Readonly<Record<string, Run>> = {
    create: (name, cpu) => createPod(name, { requests: { cpu } }),
    delete: (name) => server.send("DELETE", `${NAMESPACE}/pods/${name}`),
    end: (name) =>
      server.send("PATCH", `${NAMESPACE}/pods/${name}/status`, {
        body: { status: { phase: "Succeeded" } },
      }),
    deadline: (name) =>
      server.send("PATCH", `${NAMESPACE}/pods/${name}`, {
        body: { spec: { activeDeadlineSeconds: 9 } },
      }),
    map: (name, cpu) => create("configmaps", name, { data: { cpu } }),
    unmap: (name) => server.send("DELETE", `${NAMESPACE}/configmaps/${name}`),
    hard: (_, cpu) =>
      server.send("PATCH", `${NAMESPACE}/resourcequotas/q`, {
        body: { spec: { hard: { "limits.cpu": cpu } } },
      }),
  };
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 25 }), async (steps) => {
      const promises = steps.flatMap(({ action, name, cpu }) => runs[action]?.(name, cpu) ?? []);
      await Promise.all(promises);
      const restarted = new ResourceQuotas(server.deps.store);
      for (const name of ["q", "t"]) {
        expect(usedOf(server.deps.resourceQuotas, name)).toEqual(usedOf(restarted, name));
      }
    }),
    { numRuns: 25 },
  );
});

test("a deleted quota limits nothing", async () => {
  await server.put("resourcequotas", aQuota({ configmaps: "0" }));
  expect((await create("configmaps", "a")).code).toBe(403);
  await server.send("DELETE", `${NAMESPACE}/resourcequotas/q`);
  expect((await create("configmaps", "a")).code).toBe(201);
  expect(usedOf()).toBeUndefined();
});

test("the status follows the usage and the specification", async () => {
  const stop = new AbortController();
  await server.put("configmaps", {
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name: "a", namespace: "default", uid: "u" },
  });
  await server.put("resourcequotas", aQuota({ configmaps: "3", secrets: "2" }));
  startQuotaStatus(server.deps, stop.signal);
  const status = async () => {
    await runTurns(20);
    return server.stored("resourcequotas", "q")?.["status"];
  };
  const hard = { configmaps: "3", secrets: "2" };
  expect(await status()).toEqual({ hard, used: { configmaps: "1", secrets: "0" } });
  await create("configmaps", "b");
  expect(await status()).toEqual({ hard, used: { configmaps: "2", secrets: "0" } });
  const before = server.stored("resourcequotas", "q")?.metadata.resourceVersion;
  await create("services", "s", { spec: { ports: [{ port: 1 }] } });
  await runTurns(20);
  expect(server.stored("resourcequotas", "q")?.metadata.resourceVersion).toBe(before);
  const body = { spec: { hard: { secrets: null, configmaps: "9" } } };
  await server.send("PATCH", `${NAMESPACE}/resourcequotas/q`, { body });
  expect(await status()).toEqual({ hard: { configmaps: "9" }, used: { configmaps: "2" } });
  stop.abort();
});
