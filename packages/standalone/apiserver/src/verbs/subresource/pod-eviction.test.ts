// SPDX-License-Identifier: Apache-2.0
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Fields } from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import { aPod } from "../../testing/objects.ts";
import { type Answer, type TestServer, startTestServer } from "../../testing/test-server.ts";

const BUDGETS = "policy/poddisruptionbudgets";

let server: TestServer;

beforeEach(async () => {
  server = await startTestServer();
});

afterEach(async () => {
  await server.close();
});

const LABELS = { labels: { app: "web" } };
const UNREADY = { conditions: [{ type: "Ready", status: "False" }] };

/** A pod without a node: its eviction removes it at once. */
function web(name: string, status: Fields = {}, metadata: Fields = {}): KubeObject {
  return aPod(name, { metadata: { ...LABELS, ...metadata }, spec: { nodeName: "" }, status });
}

function budget(name: string, spec: Fields): KubeObject {
  return {
    apiVersion: "policy/v1",
    kind: "PodDisruptionBudget",
    metadata: { name, namespace: "default" },
    spec: { selector: { matchLabels: { app: "web" } }, ...spec },
  };
}

function evict(name: string, body: Fields = {}, query = ""): Promise<Answer> {
  return server.send("POST", `/api/v1/namespaces/default/pods/${name}/eviction${query}`, {
    body: { apiVersion: "policy/v1", kind: "Eviction", metadata: { name }, ...body },
  });
}

describe("without a budget", () => {
  test("deletes the pod and returns a Status", async () => {
    await server.put("pods", web("a"));
    const { code, body } = await evict("a");
    expect([code, body, server.stored("pods", "a")]).toEqual([
      201,
      { kind: "Status", apiVersion: "v1", metadata: {}, status: "Success", code: 201 },
      undefined,
    ]);
  });

  test("applies the options of the body", async () => {
    await server.put("pods", aPod("a"));
    await evict("a", { deleteOptions: { gracePeriodSeconds: 77 } });
    expect(server.stored("pods", "a")?.metadata.deletionGracePeriodSeconds).toBe(77);
    const other = await evict("a", { deleteOptions: { preconditions: { uid: "x" } } });
    expect([other.code, other.body.reason]).toEqual([409, "Conflict"]);
  });

  test.each([
    { name: "in the query", body: {}, query: "?dryRun=All" },
    { name: "in the body", body: { deleteOptions: { dryRun: ["All"] } }, query: "" },
  ])("a dry run $name deletes nothing", async ({ body, query }) => {
    await server.put("pods", web("a"));
    expect((await evict("a", body, query)).code).toBe(201);
    expect(server.stored("pods", "a")).toBeDefined();
  });

  test("returns 404 for an unknown pod", async () => {
    expect(await evict("none")).toMatchObject({
      code: 404,
      body: { message: 'pods "none" not found' },
    });
  });

  test("sends the eviction to admission, not the deletion", async () => {
    await server.put("pods", web("a"));
    await evict("a");
    expect(server.webhooks.recorded).toMatchObject([
      {
        phase: "mutate",
        request: {
          bodyKind: { group: "policy", version: "v1", kind: "Eviction" },
          subresource: "eviction",
          operation: "CREATE",
          name: "a",
          namespace: "default",
        },
      },
      { phase: "validate" },
    ]);
  });
});

describe("with a budget", () => {
  const ALWAYS = { unhealthyPodEvictionPolicy: "AlwaysAllow" };
  const READY = [web("b"), web("c")];

  test.each([
    {
      name: "enough pods remain available",
      spec: { minAvailable: 2 },
      pods: [web("a"), ...READY],
      code: 201,
    },
    {
      name: "too few pods remain available",
      spec: { minAvailable: 3 },
      pods: [web("a"), ...READY],
      code: 429,
    },
    {
      name: "one pod may be unavailable",
      spec: { maxUnavailable: 1 },
      pods: [web("a"), ...READY],
      code: 201,
    },
    {
      name: "no pod may be unavailable",
      spec: { maxUnavailable: 0 },
      pods: [web("a"), ...READY],
      code: 429,
    },
    {
      name: "an unready pod with enough ready pods",
      spec: { minAvailable: 2 },
      pods: [web("a", UNREADY), ...READY],
      code: 201,
    },
    {
      name: "an unready pod with too few ready pods",
      spec: { minAvailable: 3 },
      pods: [web("a", UNREADY), ...READY],
      code: 429,
    },
    {
      name: "an unready pod under policy AlwaysAllow",
      spec: { minAvailable: 3, ...ALWAYS },
      pods: [web("a", UNREADY), ...READY],
      code: 201,
    },
    {
      name: "a ready pod under policy AlwaysAllow",
      spec: { minAvailable: 3, ...ALWAYS },
      pods: [web("a"), ...READY],
      code: 429,
    },
    {
      name: "an unready pod of a budget with 100 percent maxUnavailable",
      spec: { maxUnavailable: "100%" },
      pods: [web("a", UNREADY)],
      code: 429,
    },
    {
      name: "a pod that has not begun",
      spec: { minAvailable: 3 },
      pods: [web("a", { phase: "Pending" })],
      code: 201,
    },
    {
      name: "a pod that has ended",
      spec: { minAvailable: 3 },
      pods: [web("a", { phase: "Failed" })],
      code: 201,
    },
    {
      name: "a pod that is being deleted",
      spec: { minAvailable: 3 },
      pods: [web("a", {}, { deletionTimestamp: "1970-01-01T00:00:30Z" })],
      code: 201,
    },
    {
      name: "a pod that the budget does not select",
      spec: { minAvailable: 3 },
      pods: [web("a", {}, { labels: { app: "x" } })],
      code: 201,
    },
  ])("$name: $code", async ({ spec, pods, code }) => {
    await server.put("pods", ...pods);
    await server.put(BUDGETS, budget("b", spec));
    expect((await evict("a")).code).toBe(code);
    expect(server.stored("pods", "a") === undefined).toBe(code === 201);
  });

  test("reports the number of missing healthy pods", async () => {
    await server.put("pods", web("a"), web("b", UNREADY));
    await server.put(BUDGETS, budget("b", { minAvailable: 2 }));
    const { body } = await evict("a");
    expect([body.reason, body.message, body.details]).toEqual([
      "TooManyRequests",
      "Cannot evict pod as it would violate the pod's disruption budget.",
      {
        causes: [
          {
            reason: "DisruptionBudget",
            message: "The disruption budget b needs 2 healthy pods and has 1 currently",
          },
        ],
      },
    ]);
  });

  test("ignores a budget of another namespace", async () => {
    await server.put("pods", web("a"));
    const other = budget("b", { minAvailable: 3 });
    other.metadata.namespace = "other";
    await server.put(BUDGETS, other);
    expect((await evict("a")).code).toBe(201);
  });

  test("ignores pods of another namespace", async () => {
    await server.put("pods", web("a"), web("b", {}, { namespace: "other" }));
    await server.put(BUDGETS, budget("b", { minAvailable: 1 }));
    expect((await evict("a")).code).toBe(429);
  });

  test("fails with 500 for several budgets of one pod", async () => {
    await server.put("pods", web("a"));
    await server.put(BUDGETS, budget("b", { minAvailable: 0 }), budget("c", { minAvailable: 0 }));
    expect(await evict("a")).toMatchObject({
      code: 500,
      body: {
        reason: "InternalError",
        message:
          "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
      },
    });
  });

  test("the second of two concurrent evictions observes the reduced budget", async () => {
    await server.put("pods", web("a"), web("b"), web("c"));
    await server.put(BUDGETS, budget("b", { minAvailable: 2 }));
    const answers = await Promise.all([evict("a"), evict("b")]);
    expect(answers.map(({ code }) => code)).toEqual([201, 429]);
  });
});
