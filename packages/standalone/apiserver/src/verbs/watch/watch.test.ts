// SPDX-License-Identifier: Apache-2.0
// What a watch sends: from which revision, in which form, with which bookmarks, and how it ends.
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { KubeObject } from "../../objects/object.ts";
import type { WatchEvent } from "../../testing/fake-response.ts";
import { aConfigMap, aPod, widgetDefinition } from "../../testing/objects.ts";
import {
  type OpenWatch,
  type TestServer,
  runTurns,
  startTestServer,
  until,
} from "../../testing/test-server.ts";

const MAPS = "/api/v1/namespaces/default/configmaps";
const PODS = "/api/v1/namespaces/default/pods";
const WATCH = `${MAPS}?watch=1`;

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

/** The first events of a watch, as soon as there are so many; and no more of them. */
async function eventsOf({ response }: OpenWatch, count: number): Promise<readonly WatchEvent[]> {
  await until(`${String(count)} events`, () => response.events.length >= count);
  await runTurns();
  return response.events;
}

/** `TYPE name` of each event. */
function printed(events: readonly WatchEvent[]): readonly string[] {
  return events.map(({ type, object }) => `${type} ${String(object.metadata["name"])}`);
}

async function remove(name: string): Promise<void> {
  await server.send("DELETE", `${MAPS}/${name}`);
}

describe("the start of a watch", () => {
  beforeEach(async () => {
    await server.put("configmaps", aConfigMap({ name: "b" }), aConfigMap({ name: "a" }));
    await server.put("configmaps", aConfigMap({ name: "a", namespace: "other" }));
  });

  test.each([
    {
      name: "without a revision, sends existing objects as ADDED first",
      path: WATCH,
      want: ["ADDED a", "ADDED b"],
    },
    {
      name: "revision 0 behaves like a missing revision",
      path: `${WATCH}&resourceVersion=0`,
      want: ["ADDED a", "ADDED b"],
    },
    {
      name: "covers all namespaces",
      path: "/api/v1/configmaps?watch=1",
      want: ["ADDED a", "ADDED b", "ADDED a"],
    },
    {
      name: "covers one name by field selector",
      path: `${WATCH}&fieldSelector=metadata.name%3Db`,
      want: ["ADDED b"],
    },
    {
      name: "covers one name by path",
      path: "/api/v1/watch/namespaces/default/configmaps/b",
      want: ["ADDED b"],
    },
    {
      name: "covers one name in all namespaces",
      path: "/api/v1/configmaps?watch=1&fieldSelector=metadata.name%3Da",
      want: ["ADDED a", "ADDED a"],
    },
  ])("$name", async ({ path, want }) => {
    const watch = server.watch(path);
    expect(printed(await eventsOf(watch, want.length))).toEqual(want);
    expect(watch.response.head).toEqual({
      code: 200,
      headers: { "content-type": "application/json", "transfer-encoding": "chunked" },
    });
    expect([watch.response.headersSent, watch.response.unreadMs]).toEqual([true, 30_000]);
  });

  test("sends an object as stored", async () => {
    const [event] = await eventsOf(server.watch(`${WATCH}&fieldSelector=metadata.name%3Da`), 1);
    expect(event).toEqual({ type: "ADDED", object: server.stored("configmaps", "a") });
  });

  test("sends later changes in order from a revision, and then new ones", async () => {
    const from = revision();
    await server.put("configmaps", aConfigMap({ name: "c" }));
    await server.put("configmaps", aConfigMap({ name: "a" }, { k: "2" }));
    await remove("b");
    const watch = server.watch(`${WATCH}&resourceVersion=${from}`);
    expect(printed(await eventsOf(watch, 3))).toEqual(["ADDED c", "MODIFIED a", "DELETED b"]);
    await server.put("configmaps", aConfigMap({ name: "d" }));
    await remove("c");
    const events = await eventsOf(watch, 5);
    expect(printed(events.slice(3))).toEqual(["ADDED d", "DELETED c"]);
    const revisions = events.map(({ object }) => Number(object.metadata["resourceVersion"]));
    expect(revisions).toEqual([1, 2, 3, 4, 5].map((step) => Number(from) + step));
  });

  test("waits for a future revision", async () => {
    const watch = server.watch(`${WATCH}&resourceVersion=${String(Number(revision()) + 2)}`);
    await runTurns();
    for (const name of ["x", "y", "z"]) {
      await server.put("configmaps", aConfigMap({ name }));
    }
    expect(printed(await eventsOf(watch, 1))).toEqual(["ADDED z"]);
  });

  test("sends only the changes of a batch that follow the revision", async () => {
    const watch = server.watch(`${WATCH}&resourceVersion=${String(Number(revision()) + 1)}`);
    await runTurns();
    await server.put("configmaps", aConfigMap({ name: "x" }), aConfigMap({ name: "y" }));
    expect(printed(await eventsOf(watch, 1))).toEqual(["ADDED y"]);
  });

  test("sends a change during the initial list exactly once", async () => {
    const watch = server.watch(WATCH);
    const written = server.put("configmaps", aConfigMap({ name: "c" }));
    await written;
    const events = printed(await eventsOf(watch, 3));
    expect([...events].sort()).toEqual(["ADDED a", "ADDED b", "ADDED c"]);
  });
});

describe("selectors", () => {
  test("an object is ADDED when it matches, and DELETED with its previous state when it stops", async () => {
    await server.put("configmaps", aConfigMap({ name: "in", labels: { l: "1" } }, { k: "old" }));
    const watch = server.watch(`${WATCH}&labelSelector=l&resourceVersion=${revision()}`);
    await runTurns();
    await server.put("configmaps", aConfigMap({ name: "out" }));
    await server.put("configmaps", aConfigMap({ name: "in" }, { k: "new" }));
    const left = revision();
    await server.put("configmaps", aConfigMap({ name: "in", labels: { l: "2" } }));
    await server.put("configmaps", aConfigMap({ name: "in", labels: { l: "3" } }));
    await remove("in");
    await remove("out");
    const events = await eventsOf(watch, 4);
    expect(printed(events)).toEqual(["DELETED in", "ADDED in", "MODIFIED in", "DELETED in"]);
    expect(events[0]?.object).toMatchObject({
      metadata: { resourceVersion: left, labels: { l: "1" } },
      data: { k: "old" },
    });
  });

  test("a single name, without changes of other names", async () => {
    const path = "/api/v1/configmaps?watch=1&fieldSelector=metadata.name%3Da";
    const watch = server.watch(`${path}&resourceVersion=${revision()}`);
    await runTurns();
    await server.put("configmaps", aConfigMap({ name: "b" }), aConfigMap({ name: "a" }));
    expect(printed(await eventsOf(watch, 1))).toEqual(["ADDED a"]);
  });

  test("fields of the kind", async () => {
    await server.put("pods", aPod("p", { spec: { nodeName: "" } }));
    const path = `${PODS}?watch=1&fieldSelector=spec.nodeName%3Dn1&resourceVersion=${revision()}`;
    const watch = server.watch(path);
    await runTurns();
    await server.put("pods", aPod("p"));
    expect(printed(await eventsOf(watch, 1))).toEqual(["ADDED p"]);
  });
});

describe("representations", () => {
  const PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
  const TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io";

  test("metadata only", async () => {
    await server.put("configmaps", aConfigMap({ name: "a" }));
    const watch = server.watch(WATCH, { accept: PARTIAL });
    await eventsOf(watch, 1);
    await server.put("configmaps", aConfigMap({ name: "a" }, { k: "2" }));
    const events = await eventsOf(watch, 2);
    expect(events.map(({ type, object }) => [type, object["kind"], object["data"]])).toEqual([
      ["ADDED", "PartialObjectMetadata", undefined],
      ["MODIFIED", "PartialObjectMetadata", undefined],
    ]);
    expect(events[1]?.object.metadata["resourceVersion"]).toBe(revision());
  });

  test("a table describes its columns once", async () => {
    await server.put("configmaps", aConfigMap({ name: "a" }));
    const watch = server.watch(WATCH, { accept: TABLE });
    await eventsOf(watch, 1);
    await server.put("configmaps", aConfigMap({ name: "b" }));
    await remove("b");
    const events = await eventsOf(watch, 3);
    const columns = events.map(({ object }) => (object["columnDefinitions"] as object[]).length);
    expect([columns[0] !== 0, columns.slice(1)]).toEqual([true, [0, 0]]);
    expect(events[1]?.object).toMatchObject({
      kind: "Table",
      metadata: { resourceVersion: String(Number(revision()) - 1) },
      rows: [{ cells: ["b", 1, "<unknown>"], object: { kind: "PartialObjectMetadata" } }],
    });
  });

  test.each([
    { include: "Object", want: { kind: "ConfigMap" } },
    { include: "None", want: undefined },
    { include: "Metadata", want: { kind: "PartialObjectMetadata" } },
    { include: "Nonsense", want: { kind: "PartialObjectMetadata" } },
  ])("a table with $include in its rows", async ({ include, want }) => {
    await server.put("configmaps", aConfigMap({ name: "a" }));
    const watch = server.watch(`${WATCH}&includeObject=${include}`, { accept: TABLE });
    const [event] = await eventsOf(watch, 1);
    const [row] = event?.object["rows"] as { object?: object }[];
    expect(row?.object && { kind: (row.object as KubeObject).kind }).toEqual(want);
  });

  test("each watch gets its own representation of the same change", async () => {
    await server.put("apiextensions.k8s.io/customresourcedefinitions", widgetDefinition());
    const from = revision();
    const open = (version: string, accept?: string, query = "") =>
      server.watch(
        `/apis/test.io/${version}/namespaces/default/widgets?watch=1&resourceVersion=${from}${query}`,
        accept === undefined ? {} : { accept },
      );
    const watches = [
      open("v1"),
      open("v2"),
      open("v1", PARTIAL),
      open("v2", PARTIAL),
      open("v1"),
      open("v1", undefined, "&labelSelector=l"),
      open("v2", undefined, "&labelSelector=l"),
      open("v1", undefined, "&labelSelector=l"),
      open("v1", PARTIAL, "&labelSelector=l"),
    ];
    await runTurns();
    await server.put("test.io/widgets", {
      apiVersion: "test.io/v1",
      kind: "Widget",
      metadata: { name: "w", namespace: "default", labels: { l: "1" } },
      spec: {},
    });
    const first = await Promise.all(watches.map(async (watch) => (await eventsOf(watch, 1))[0]));
    const forms = first.map(
      (event) => `${String(event?.object["apiVersion"])} ${String(event?.object["kind"])}`,
    );
    const partial = "meta.k8s.io/v1 PartialObjectMetadata";
    const [one, two] = ["test.io/v1 Widget", "test.io/v2 Widget"];
    expect(forms).toEqual([one, two, partial, partial, one, one, two, one, partial]);
  });
});

describe("bookmarks", () => {
  const BOOKMARKS = `${WATCH}&allowWatchBookmarks=true`;

  test("are sent each minute and 2 s before the response ends", async () => {
    const watch = server.watch(`${BOOKMARKS}&timeoutSeconds=90&resourceVersion=${revision()}`);
    await runTurns();
    expect(server.clock.dueMs).toEqual([60_000]);
    await server.clock.advance(60_000);
    expect(watch.response.events).toEqual([
      {
        type: "BOOKMARK",
        object: {
          kind: "ConfigMap",
          apiVersion: "v1",
          metadata: { resourceVersion: revision(), creationTimestamp: null },
        },
      },
    ]);
    expect(server.clock.dueMs).toEqual([88_000]);
    await server.clock.advance(28_000);
    expect([watch.response.events.length, server.clock.dueMs]).toEqual([2, [90_000]]);
    await server.clock.advance(2000);
    await watch.done;
    expect([watch.response.events.length, watch.response.writableEnded]).toEqual([3, true]);
  });

  test.each([
    { name: "are not sent unless requested", query: "" },
    { name: "are not sent when they are refused", query: "&allowWatchBookmarks=false" },
  ])("$name", async ({ query }) => {
    const watch = server.watch(`${WATCH}&timeoutSeconds=90${query}`);
    await runTurns();
    await server.clock.advance(90_000);
    await watch.done;
    expect([watch.response.text, watch.response.writableEnded]).toEqual(["", true]);
  });

  test("contain the revision of the store although no event was sent", async () => {
    const watch = server.watch(`${BOOKMARKS}&resourceVersion=${revision()}`);
    await runTurns();
    await server.put("pods", aPod("p"));
    await server.clock.advance(60_000);
    expect(watch.response.events.map(({ object }) => object.metadata["resourceVersion"])).toEqual([
      revision(),
    ]);
  });

  test("a watch lasts half an hour unless it specifies a timeout", async () => {
    const watch = server.watch(`${WATCH}&timeoutSeconds=0`);
    await runTurns();
    await server.clock.advance(1_799_999);
    await runTurns();
    expect(watch.response.writableEnded).toBe(false);
    await server.clock.advance(1);
    await watch.done;
    expect(watch.response.writableEnded).toBe(true);
  });

  test("a short watch ends at its time", async () => {
    const watch = server.watch(`${WATCH}&timeoutSeconds=1`);
    await runTurns();
    expect(server.clock.dueMs).toEqual([1000]);
    await server.clock.advance(999.5);
    await server.clock.advance(0.5);
    await watch.done;
  });
});

describe("strict watch behavior", () => {
  test("sends bookmarks only after events, limits the duration and may expire a revision", async () => {
    const strict = await startTestServer({
      watchBehavior: {
        sendsIdleBookmarks: false,
        limitTimeoutMs: (timeoutMs) => timeoutMs / 10,
        mustRelist: ({ revision: from, user, namespace, kind, query }) =>
          from === 7 &&
          user === "admin" &&
          namespace === "default" &&
          kind.resource === "configmaps" &&
          query.has("watch"),
      },
    });
    await strict.put("configmaps", aConfigMap());
    const now = String(strict.deps.store.revision());
    await expect(strict.watch(`${WATCH}&resourceVersion=7`).done).rejects.toMatchObject({
      code: 410,
    });
    const path = `${WATCH}&allowWatchBookmarks=1&timeoutSeconds=1500&resourceVersion=${now}`;
    const watch = strict.watch(path);
    await runTurns();
    await strict.clock.advance(60_000);
    expect(watch.response.events).toEqual([]);
    await strict.put("configmaps", aConfigMap({ name: "n" }));
    await strict.clock.advance(60_000);
    await strict.clock.advance(28_000);
    expect(watch.response.events.map(({ type }) => type)).toEqual(["ADDED", "BOOKMARK"]);
    await strict.clock.advance(2000);
    await watch.done;
    await strict.close();
  });
});
