// SPDX-License-Identifier: Apache-2.0
// How a watch ends before its time, which ones are refused, and what a slow client gets.
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { FakeResponse } from "../../testing/fake-response.ts";
import { aConfigMap, widgetDefinition } from "../../testing/objects.ts";
import { type TestServer, runTurns, startTestServer, until } from "../../testing/test-server.ts";

const WATCH = "/api/v1/namespaces/default/configmaps?watch=1";
const WIDGETS = "/apis/test.io/v1/namespaces/default/widgets?watch=1";
const DEFINITIONS = "apiextensions.k8s.io/customresourcedefinitions";

let server: TestServer;

beforeEach(async () => {
  server = await startTestServer();
});

afterEach(async () => {
  await server.close();
});

function revision(): string {
  return String(server.deps.store.revision());
}

async function removeDefinition(): Promise<void> {
  const address = { bucket: DEFINITIONS, namespace: "", name: "widgets.test.io" };
  await server.deps.store.write((transaction) => transaction.remove(address, widgetDefinition()));
}

describe("rejections", () => {
  const PROBLEM =
    "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";

  test.each([
    {
      query: "sendInitialEvents=true",
      code: 422,
      message: expect.stringContaining(PROBLEM) as string,
    },
    {
      query: "resourceVersionMatch=NotOlderThan&resourceVersion=1",
      code: 422,
      message: expect.stringContaining("resourceVersionMatch is forbidden for watch") as string,
    },
    { query: "resourceVersion=1", code: 410, message: "too old resource version: 1 (5)" },
    { query: "timeoutSeconds=soon", code: 400, message: expect.stringContaining("soon") as string },
    { query: "resourceVersion=new", code: 400, message: expect.stringContaining("new") as string },
    {
      query: "fieldSelector=spec.nope%3D1",
      code: 400,
      message: expect.stringContaining("spec.nope") as string,
    },
  ])("$query: $code", async ({ query, code, message }) => {
    const { done, response } = server.watch(`${WATCH}&${query}`);
    await expect(done).rejects.toMatchObject({ code, message });
    expect(response.headersSent).toBe(false);
  });

  test("a rejected option is named as a cause of ListOptions", async () => {
    const { done } = server.watch(`${WATCH}&sendInitialEvents=false`);
    await expect(done).rejects.toMatchObject({
      details: {
        group: "meta.k8s.io",
        kind: "ListOptions",
        causes: [{ field: "sendInitialEvents", reason: "FieldValueForbidden" }],
      },
    });
  });

  test("a compacted revision fails with 410", async () => {
    const asked: unknown[] = [];
    server.deps.store.changesAfter = (scope, after) => {
      asked.push([scope, after]);
      return undefined;
    };
    const { done } = server.watch(`${WATCH}&resourceVersion=2`);
    await expect(done).rejects.toMatchObject({ code: 410, reason: "Expired" });
    expect(asked).toEqual([[{ bucket: "/configmaps", namespace: "default" }, 2]]);
  });

  test("watches beyond the user's limit fail with 429 until one ends", async () => {
    const few = await startTestServer({ limits: { watches: { max: 1, share: 1 } } });
    const first = few.watch(WATCH);
    await runTurns();
    await expect(few.watch(WATCH).done).rejects.toMatchObject({ code: 429 });
    first.response.destroy();
    await first.done;
    const third = few.watch(WATCH);
    await until("the head", () => third.response.headersSent);
    await few.close();
  });
});

describe("the end of a watch", () => {
  test("on client disconnect logs nothing and removes the store listener", async () => {
    const { response, done } = server.watch(WATCH);
    await runTurns();
    response.destroy();
    await done;
    expect(server.logged).toEqual([]);
  });

  test("sends nothing if the client disconnected before", async () => {
    const response = new FakeResponse();
    response.destroy();
    await server.watch(WATCH, {}, response).done;
    expect(response.headersSent).toBe(false);
  });

  test("closes the response when the server stops", async () => {
    const { response, done } = server.watch(WATCH);
    await runTurns();
    server.stop();
    await done;
    expect([response.writableEnded, server.logged]).toEqual([true, []]);
  });

  test("follows the removal of the kind's definition, not its change", async () => {
    await server.put(DEFINITIONS, widgetDefinition());
    const { response, done } = server.watch(WIDGETS);
    const maps = server.watch(WATCH);
    await runTurns();
    await server.put(DEFINITIONS, widgetDefinition({ preserveUnknownFields: false }));
    await runTurns();
    expect(response.writableEnded).toBe(false);
    await removeDefinition();
    await done;
    expect([response.writableEnded, maps.response.writableEnded]).toEqual([true, false]);
  });

  test("follows a failure, which is logged", async () => {
    await server.put("configmaps", aConfigMap());
    const { store } = server.deps;
    const list = store.list.bind(store);
    store.list = (scope) => {
      if (scope.bucket === "/configmaps") throw new Error("broken");
      return list(scope);
    };
    const { response, done } = server.watch(WATCH);
    await done;
    expect([response.writableEnded, server.logged]).toEqual([
      true,
      ['watch failed {"err":"broken"}'],
    ]);
  });

  test("sends an ERROR event if the log is compacted while the client is behind", async () => {
    const from = revision();
    await server.put("configmaps", aConfigMap());
    const { store } = server.deps;
    const changesAfter = store.changesAfter.bind(store);
    let reads = 0;
    store.changesAfter = (scope, after, limit) => {
      reads += 1;
      return reads === 1 ? changesAfter(scope, after, limit) : undefined;
    };
    const { response, done } = server.watch(`${WATCH}&resourceVersion=${from}`);
    await done;
    expect(response.events).toMatchObject([
      {
        type: "ERROR",
        object: {
          kind: "Status",
          code: 410,
          reason: "Expired",
          message: `too old resource version: ${from} (${revision()})`,
        },
      },
    ]);
    expect(response.writableEnded).toBe(true);
  });
});

describe("a client that does not read", () => {
  const LONG = { k: "v".repeat(200_000) };

  /** Reads until the client has so many events. */
  async function readUntil(response: FakeResponse, count: number): Promise<void> {
    await until(`${String(count)} events`, () => {
      response.read();
      return response.events.length >= count;
    });
  }

  test("receives missed events from the log, once each and in order", async () => {
    const response = new FakeResponse({ slow: true });
    server.watch(`${WATCH}&resourceVersion=${revision()}`, {}, response);
    await runTurns();
    for (let count = 0; count < 6; count += 1) {
      await server.put("configmaps", aConfigMap({ name: `m${String(count)}` }, LONG));
    }
    await runTurns();
    expect(response.writableLength).toBeLessThan(2 * LONG.k.length);
    await readUntil(response, 6);
    await server.put("configmaps", aConfigMap({ name: "last" }));
    await readUntil(response, 7);
    expect(response.events.map(({ object }) => object.metadata["name"])).toEqual([
      "m0",
      "m1",
      "m2",
      "m3",
      "m4",
      "m5",
      "last",
    ]);
  });

  test("receives the existing objects in chunks", async () => {
    for (let count = 0; count < 6; count += 1) {
      await server.put("configmaps", aConfigMap({ name: `m${String(count)}` }, LONG));
    }
    const response = new FakeResponse({ slow: true });
    server.watch(WATCH, {}, response);
    await runTurns(20);
    // The first object is longer than a chunk: the second waits until it is read.
    response.read();
    expect(response.writableLength).toBeLessThan(LONG.k.length);
    await readUntil(response, 6);
    expect(response.events.map(({ object }) => object.metadata["name"])).toEqual(
      [0, 1, 2, 3, 4, 5].map((count) => `m${String(count)}`),
    );
    expect(Math.max(...response.pieces)).toBeLessThanOrEqual(64 * 1024);
  });

  test("is cut off at the end when too much is pending", async () => {
    const response = new FakeResponse({ slow: true });
    const { done } = server.watch(`${WATCH}&resourceVersion=${revision()}`, {}, response);
    await runTurns();
    await server.put(
      "configmaps",
      aConfigMap({ name: "a" }, LONG),
      aConfigMap({ name: "b" }, LONG),
    );
    await runTurns();
    server.stop();
    await done;
    expect([response.destroyed, response.writableEnded]).toEqual([true, false]);
  });

  test("delays other watches of its user, not those of other users", async () => {
    const unsentBytes = { max: 1_000_000, share: 100_000 };
    const small = await startTestServer({ limits: { unsentBytes } });
    const from = String(small.deps.store.revision());
    const slow = new FakeResponse({ slow: true });
    small.watch(`${WATCH}&resourceVersion=${from}`, {}, slow);
    const own = small.watch(`${WATCH}&resourceVersion=${from}`);
    const user = { name: "joe", groups: ["system:masters"] };
    const other = small.watch(`${WATCH}&resourceVersion=${from}`, { user });
    await runTurns();
    await small.put("configmaps", aConfigMap({ name: "a" }, LONG));
    await until("the other user's event", () => other.response.events.length === 1);
    await small.put("configmaps", aConfigMap({ name: "b" }));
    await until("the other user's next event", () => other.response.events.length === 2);
    await runTurns(20);
    expect(own.response.events.length).toBeLessThan(2);
    await until("what waited", () => {
      slow.read();
      return own.response.events.length === 2;
    });
    await small.close();
  });
});
