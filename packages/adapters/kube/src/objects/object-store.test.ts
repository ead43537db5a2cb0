// SPDX-License-Identifier: Apache-2.0
import { NODES, PODS } from "@patchbay/api";
import { AppError } from "@patchbay/base";
import type { Store } from "@patchbay/core/interfaces";
import { createFakeClock } from "@patchbay/os/testing";
import { createFakeLogger } from "@patchbay/telemetry/testing";
import { describe, expect, test } from "vitest";
import { createKubeClient, type KubeClient } from "../client.ts";
import {
  type Answer,
  clock,
  failure,
  json,
  key,
  pod,
  type RecordedRequest,
  startScriptedServer,
} from "../testing/scripted-server.ts";
import { ConflictCounter } from "./object-store.ts";

/** Runs `use` against a server that answers so; what it was asked. */
async function runAgainst(
  answer: Answer,
  use: (store: Store, client: KubeClient) => Promise<unknown>,
): Promise<readonly RecordedRequest[]> {
  await using server = await startScriptedServer(answer);
  const client = createKubeClient(server.config, { logger: createFakeLogger(), clock });
  try {
    await use(client.store, client);
  } finally {
    await client.close();
  }
  return server.requests;
}

/** The error that the call throws. */
async function catchError(
  answer: Answer,
  use: (store: Store) => Promise<unknown>,
): Promise<unknown> {
  try {
    await runAgainst(answer, use);
  } catch (error) {
    return error;
  }
  return undefined;
}

describe("a call", () => {
  const base = "/api/v1/namespaces/ns/pods";
  test.each<{
    name: string;
    use: (store: Store) => Promise<unknown>;
    want: Partial<Omit<RecordedRequest, "query">> & { query?: string; type?: string };
  }>([
    {
      name: "find",
      use: (store) => store.find(PODS, key),
      want: { method: "GET", path: `${base}/one` },
    },
    {
      name: "find of a cluster-scoped kind",
      use: (store) => store.find(NODES, { name: "n1" }),
      want: { method: "GET", path: "/api/v1/nodes/n1" },
    },
    {
      name: "find of a name with a slash",
      use: (store) => store.find(NODES, { name: "../x" }),
      want: { method: "GET", path: "/api/v1/nodes/..%2Fx" },
    },
    {
      name: "create",
      use: (store) => store.create(PODS, pod, { dryRun: true }),
      want: { method: "POST", path: base, query: "dryRun=All", body: JSON.stringify(pod) },
    },
    {
      name: "update of the status",
      use: (store) => store.update(PODS, pod, { subresource: "status" }),
      want: { method: "PUT", path: `${base}/one/status` },
    },
    {
      name: "JSON patch",
      use: (store) =>
        store.patch(PODS, key, { type: "json", operations: [{ op: "remove", path: "/a" }] }),
      want: {
        method: "PATCH",
        path: `${base}/one`,
        type: "application/json-patch+json",
        body: '[{"op":"remove","path":"/a"}]',
      },
    },
    {
      name: "merge patch",
      use: (store) => store.patch(PODS, key, { type: "merge", fields: { a: null } }),
      want: { method: "PATCH", type: "application/merge-patch+json", body: '{"a":null}' },
    },
    {
      name: "delete",
      use: (store) => store.delete(PODS, key),
      want: { method: "DELETE", body: '{"apiVersion":"v1","kind":"DeleteOptions"}' },
    },
    {
      name: "delete with foreground propagation",
      use: (store) => store.delete(PODS, key, { propagationPolicy: "Foreground" }),
      want: {
        body: '{"apiVersion":"v1","kind":"DeleteOptions","propagationPolicy":"Foreground"}',
      },
    },
    {
      name: "delete with a UID precondition",
      use: (store) => store.delete(PODS, key, { uid: "u1", gracePeriodSeconds: 0 }),
      want: {
        method: "DELETE",
        path: `${base}/one`,
        body: '{"apiVersion":"v1","kind":"DeleteOptions","gracePeriodSeconds":0,"preconditions":{"uid":"u1"}}',
      },
    },
  ])("$name sends the right request", async ({ use, want }) => {
    const [requests] = await runAgainst(json(200, pod), use);
    const { query, type, ...rest } = want;
    expect(requests).toMatchObject({ ...rest, headers: { authorization: "Bearer abc" } });
    expect(requests?.query.toString()).toBe(query ?? "");
    expect(requests?.headers["content-type"]).toBe(type ?? requests?.headers["content-type"]);
  });

  test("a list adds the kind that the server omits to its items", async () => {
    const list = { kind: "PodList", apiVersion: "v1", metadata: {}, items: [{ metadata: key }] };
    await runAgainst(json(200, list), async (store) => {
      const { items } = await store.list(PODS, { namespace: "ns" });
      expect(items).toEqual([{ apiVersion: "v1", kind: "Pod", metadata: key }]);
    });
  });

  test("many calls share connections", async () => {
    await using server = await startScriptedServer(json(200, pod));
    const client = createKubeClient(server.config, { logger: createFakeLogger(), clock });
    for (let i = 0; i < 20; i += 1) await client.store.find(PODS, key);
    expect(server.connections()).toBeLessThanOrEqual(2);
    await client.close();
  });
});

describe("a missing object", () => {
  test("is undefined when the server says NotFound", async () => {
    const missing = failure(404, "NotFound", { details: { name: "one", kind: "pods" } });
    await runAgainst(missing, async (store) => {
      expect(await store.find(PODS, key)).toBeUndefined();
    });
  });

  const unknownPath: Answer = (response) => response.writeHead(404).end("404 page not found\n");
  test.each([
    { name: "group", answer: unknownPath },
    { name: "kind", answer: failure(404, "NotFound", { details: {} }) },
  ])("is an error if the server does not know the $name", async ({ answer }) => {
    const error = await catchError(answer, (store) => store.find(PODS, key));
    expect(error).toMatchObject({ code: "KUBE_NOT_FOUND" });
  });

  test("counts as deleted", async () => {
    const requests = await runAgainst(failure(404, "NotFound"), (store) => store.delete(PODS, key));
    expect(requests).toHaveLength(1);
  });
});

describe("a rejection", () => {
  const tested = {
    type: "json",
    operations: [{ op: "test", path: "/a", value: 1 }],
  } as const;
  const causes = {
    details: { causes: [{ reason: "FieldValueInvalid", field: "spec.x", message: "bad" }] },
  };
  test.each([
    { name: "conflict", answer: failure(409, "Conflict"), want: "KUBE_CONFLICT" },
    {
      name: "an existing object",
      answer: failure(409, "AlreadyExists"),
      want: "KUBE_ALREADY_EXISTS",
    },
    { name: "a failed test", answer: failure(422, "Invalid"), want: "KUBE_CONFLICT" },
    {
      name: "an invalid result after a test",
      answer: failure(422, "Invalid", causes),
      want: "KUBE_REFUSED",
    },
    { name: "a bad request", answer: failure(400, "BadRequest"), want: "KUBE_REFUSED" },
    { name: "a forbidden request", answer: failure(403, "Forbidden"), want: "KUBE_FORBIDDEN" },
    {
      name: "an unauthenticated request",
      answer: failure(401, "Unauthorized"),
      want: "KUBE_UNAUTHORIZED",
    },
    { name: "an expired resource version", answer: failure(410, "Expired"), want: "KUBE_EXPIRED" },
    {
      name: "a throttled request",
      answer: failure(429, "TooManyRequests"),
      want: "KUBE_SERVER_FAILED",
    },
    { name: "a server error", answer: failure(500, "InternalError"), want: "KUBE_SERVER_FAILED" },
    { name: "an answer that is not JSON", answer: json(200, undefined), want: "API_MALFORMED" },
  ])("$name is $want", async ({ answer, want }) => {
    const error = await catchError(answer, (store) => store.patch(PODS, key, tested));
    expect(error).toMatchObject({ code: want });
  });

  const untested = { type: "json", operations: [{ op: "remove", path: "/a" }] } as const;
  const mixed = { ...tested, operations: [...tested.operations, ...untested.operations] } as const;
  const merged = { type: "merge", fields: {} } as const;
  test.each([
    { name: "a patch with a test and a change", patch: mixed, want: "KUBE_CONFLICT" },
    { name: "a patch without a test", patch: untested, want: "KUBE_REFUSED" },
    { name: "a merge patch", patch: merged, want: "KUBE_REFUSED" },
  ])("of $name without causes is $want", async ({ patch, want }) => {
    const error = await catchError(failure(422, "Invalid"), (store) =>
      store.patch(PODS, key, patch),
    );
    expect(error).toMatchObject({ code: want });
  });

  test.each<{ name: string; use: (store: Store) => Promise<unknown>; want: object }>([
    {
      name: "get",
      use: (store) => store.find(PODS, key),
      want: { verb: "get", object: "ns/one" },
    },
    {
      name: "list",
      use: (store) => store.list(PODS, { namespace: "ns" }),
      want: { verb: "list", object: "ns" },
    },
    {
      name: "list of all namespaces",
      use: (store) => store.list(PODS),
      want: { verb: "list", object: "" },
    },
    {
      name: "update",
      use: (store) => store.update(PODS, pod),
      want: { verb: "update", object: "ns/one" },
    },
    {
      name: "delete",
      use: (store) => store.delete(PODS, key),
      want: { verb: "delete", object: "ns/one" },
    },
    {
      name: "patch",
      use: (store) => store.patch(PODS, key, merged),
      want: { verb: "patch", object: "ns/one" },
    },
  ])("names the request: $name", async ({ use, want }) => {
    const error = await catchError(failure(403, "Forbidden"), use);
    expect(error).toMatchObject({ details: { resource: "pods", status: 403, ...want } });
  });

  test.each<{ name: string; use: (store: Store) => Promise<unknown> }>([
    { name: "get", use: (store) => store.find(PODS, key) },
    { name: "list", use: (store) => store.list(PODS) },
  ])("includes a redirection: $name", async ({ use }) => {
    const error = await catchError(failure(300, "Elsewhere"), use);
    expect(error).toMatchObject({ code: "KUBE_REFUSED", details: { status: 300 } });
  });

  test("with status 403 does not count as a missing object, even if it names the object", async () => {
    const error = await catchError(
      failure(403, "Forbidden", { details: { name: "one" } }),
      (store) => store.find(PODS, key),
    );
    expect(error).toMatchObject({ code: "KUBE_FORBIDDEN" });
  });

  test("that is not JSON names the request", async () => {
    const page: Answer = (response) => response.writeHead(200).end("<html>");
    const error = await catchError(page, (store) => store.find(PODS, key));
    expect(error).toMatchObject({
      code: "API_MALFORMED",
      details: {
        what: "the answer to get of pods",
        reason: expect.stringContaining("SyntaxError") as string,
      },
      cause: expect.any(SyntaxError) as unknown,
    });
  });

  test("contains the message and the causes, one line each", async () => {
    const error = await catchError(failure(422, "Invalid", causes), (store) =>
      store.create(PODS, pod),
    );
    expect(error).toMatchObject({
      code: "KUBE_REFUSED",
      details: {
        verb: "create",
        object: "ns/one",
        status: 422,
        message: "refused: Invalid",
        causes: "spec.x: bad",
      },
    });
  });
});

describe("a server that cannot be reached", () => {
  test("is named in the error", async () => {
    const server = await startScriptedServer(json(200, pod));
    await server[Symbol.asyncDispose]();
    const client = createKubeClient(server.config, { logger: createFakeLogger(), clock });
    await expect(client.store.find(PODS, key)).rejects.toMatchObject({
      code: "KUBE_UNREACHABLE",
      details: { server: server.config.server },
    });
    await client.close();
  });

  test("fails at the deadline if it does not respond", async () => {
    const error = await catchError(
      () => undefined,
      (store) => store.find(PODS, key, { timeoutMs: 50 }),
    );
    expect(error).toMatchObject({
      code: "KUBE_UNREACHABLE",
      details: { message: "no answer within 50 ms" },
    });
  });

  test("an abort by the caller retains its reason", async () => {
    const signal = AbortSignal.abort(new Error("stop"));
    const error = await catchError(json(200, pod), (store) => store.find(PODS, key, { signal }));
    expect(error).toMatchObject({ message: "stop" });
  });

  test("a read whose connection broke is repeated once, a write is not", async () => {
    let requests = 0;
    const breakFirst: Answer = (response, request) => {
      requests += 1;
      if (requests % 2 === 1) response.socket?.destroy();
      else json(200, pod)(response, request);
    };
    await runAgainst(breakFirst, async (store) => {
      expect(await store.find(PODS, key)).toEqual(pod);
      await expect(store.create(PODS, pod)).rejects.toMatchObject({ code: "KUBE_UNREACHABLE" });
    });
    expect(requests).toBe(3);
  });
});

describe("credentials", () => {
  test("are read again when the server rejects them", async () => {
    const tokens = ["old", "new"];
    await using server = await startScriptedServer((response, request) => {
      const isNew = request.headers.authorization === "Bearer new";
      (isNew ? json(200, pod) : failure(401, "Unauthorized"))(response, request);
    });
    const config = {
      ...server.config,
      readCredentials: () => Promise.resolve({ token: tokens.shift() ?? "none" }),
    };
    const client = createKubeClient(config, { logger: createFakeLogger(), clock });
    expect(await client.store.find(PODS, key)).toEqual(pod);
    expect(await client.store.find(PODS, key)).toEqual(pod);
    expect(server.requests).toHaveLength(3);
    await client.close();
  });
});

describe("credentials that cannot be read temporarily", () => {
  test("stay in use unchanged", async () => {
    await using server = await startScriptedServer(json(200, pod));
    const fakeClock = createFakeClock();
    let reads = 0;
    const readCredentials = (): Promise<{ token: string }> => {
      reads += 1;
      return reads === 2 ? Promise.reject(new Error("gone")) : Promise.resolve({ token: "abc" });
    };
    const config = { ...server.config, readCredentials };
    const client = createKubeClient(config, { logger: createFakeLogger(), clock: fakeClock });
    expect(await client.store.find(PODS, key)).toEqual(pod);
    await fakeClock.advance(61_000);
    expect(await client.store.find(PODS, key)).toEqual(pod);
    expect(await client.store.find(PODS, key)).toEqual(pod);
    expect(reads).toBe(2);
    await client.close();
  });
});

describe("a raw request", () => {
  test("reaches a subresource and returns status and text", async () => {
    const requests = await runAgainst(
      (response) => response.writeHead(202).end(),
      async (_store, client) => {
        const path = "/apis/subresources.kubevirt.io/v1/namespaces/a/virtualmachines/b/start";
        expect(await client.requestRaw({ method: "PUT", path, body: {} })).toEqual({
          status: 202,
          text: "",
          warnings: [],
        });
      },
    );
    expect(requests[0]).toMatchObject({ method: "PUT", body: "{}" });
  });

  test("names the request when it is rejected", async () => {
    const path = "/apis/x/y";
    await runAgainst(failure(300, "Elsewhere"), async (_store, client) => {
      await expect(client.requestRaw({ method: "PUT", path })).rejects.toMatchObject({
        details: { verb: "put", resource: path, status: 300 },
      });
    });
  });

  test("without a body sends no content headers", async () => {
    const [requests] = await runAgainst(json(200, {}), async (_store, client) => {
      await client.requestRaw({ method: "GET", path: "/version" });
    });
    expect(requests?.headers).toMatchObject({
      accept: "application/json",
      "user-agent": "patchbay",
    });
    expect(requests?.headers).not.toHaveProperty("content-type");
    expect(requests).toMatchObject({ path: "/version", body: "" });
  });
});

describe("writes with repeated conflicts", () => {
  const patch = { type: "json", operations: [{ op: "test", path: "/a", value: 1 }] } as const;
  const refused = failure(422, "Invalid", { message: "the test of /a failed" });

  /** The codes of patches in turn; each says how it is answered. */
  async function collectCodes(answers: readonly Answer[]): Promise<readonly unknown[]> {
    const remaining = [...answers];
    await using server = await startScriptedServer((...exchange) => {
      remaining.shift()?.(...exchange);
    });
    const client = createKubeClient(server.config, { logger: createFakeLogger(), clock });
    const codes: unknown[] = [];
    while (remaining.length > 0) {
      const outcome: unknown = await client.store
        .patch(PODS, key, patch)
        .catch((error: unknown) => error);
      codes.push(outcome instanceof AppError ? outcome.code : "ok");
    }
    await client.close();
    return codes;
  }

  test("are reported as a fault from the fifth in a row on", async () => {
    const codes = await collectCodes(Array.from({ length: 6 }, () => refused));
    const [lost, repeated] = ["KUBE_CONFLICT", "KUBE_WRITES_LOST"];
    expect(codes).toEqual([lost, lost, lost, lost, repeated, repeated]);
  });

  test("are counted afresh after a successful write", async () => {
    const four = Array.from({ length: 4 }, () => refused);
    const codes = await collectCodes([...four, json(200, pod), ...four]);
    expect(new Set(codes)).toEqual(new Set(["KUBE_CONFLICT", "ok"]));
  });

  test("are reported with the server's message", () => {
    const lost = new ConflictCounter();
    const details = { resource: "pods", object: "ns/one", message: "the test of /a failed" };
    const race = new AppError("KUBE_CONFLICT", details);
    const errors = Array.from({ length: 5 }, () => lost.toThrow("/one", race));
    expect(lost.toThrow("/two", race)).toBe(race);
    expect(errors.at(-1)).toMatchObject({
      message:
        "5 writes of pods ns/one in a row were refused because it had changed: the test of /a failed",
      details: { ...details, count: 5 },
      cause: race,
    });
    const other = new AppError("KUBE_FORBIDDEN", { message: "no" });
    expect(lost.toThrow("/one", other)).toBe(other);
  });
});
