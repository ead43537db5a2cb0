// SPDX-License-Identifier: Apache-2.0
import { PODS } from "@patchbay/api";
import type { Pod } from "@patchbay/api/kubernetes";
import { createFakeLogger } from "@patchbay/telemetry/testing";
import { describe, expect, test } from "vitest";
import { createKubeClient } from "../client.ts";
import {
  type Answer,
  clock,
  eventually,
  failure,
  json,
  lines,
  type ScriptedServer,
  startScriptedServer,
} from "../testing/scripted-server.ts";
import { type Reflection, omitBookkeeping } from "./reflector.ts";

const METADATA = { name: "a", namespace: "ns", uid: "u", resourceVersion: "3" };

function thing(more: object): { apiVersion: string; kind: string; metadata: typeof METADATA } {
  return { apiVersion: "v1", kind: "Thing", metadata: { ...METADATA, ...more } };
}

const APPLIED = { "kubectl.kubernetes.io/last-applied-configuration": "{}" };

test.each([
  { name: "field managers", input: { managedFields: [{ manager: "m" }] }, want: {} },
  {
    name: "the last applied configuration",
    input: { annotations: APPLIED },
    want: { annotations: {} },
  },
  {
    name: "only that annotation, not others",
    input: { annotations: { ...APPLIED, a: "b" } },
    want: { annotations: { a: "b" } },
  },
  {
    name: "no labels and finalizers",
    input: { labels: { a: "b" }, finalizers: ["f"] },
    want: { labels: { a: "b" }, finalizers: ["f"] },
  },
])("omits $name", ({ input, want }) => {
  const whole = { ...thing(input), spec: { a: 1 } };
  expect(omitBookkeeping(whole)).toEqual({ ...thing(want), spec: { a: 1 } });
});

function buildPod(name: string, resourceVersion: string): object {
  return { metadata: { namespace: "ns", name, uid: `uid-${name}`, resourceVersion } };
}

function buildList(resourceVersion: string, pods: readonly object[], next?: string): Answer {
  const metadata = { resourceVersion, ...(next !== undefined && { continue: next }) };
  return json(200, { kind: "PodList", apiVersion: "v1", metadata, items: pods });
}

function event(type: string, object: object): string {
  return JSON.stringify({ type, object });
}

/** What a reflector tells, as words: `list a,b`, `+a@3`, `-a`. */
function describeReflection(reflection: Reflection<Pod>): string {
  if (reflection.kind === "listed") {
    return `list ${reflection.objects.map((pod) => pod.metadata.name).join(",")}`;
  }
  const { name, resourceVersion } = reflection.object.metadata;
  return reflection.kind === "removed" ? `-${name}` : `+${name}@${resourceVersion ?? ""}`;
}

interface Reflected {
  readonly reflections: readonly string[];
  readonly server: ScriptedServer;
  readonly warnings: () => number;
  readonly stop: () => void;
}

/** Runs a reflector against answers to lists and watches, each used once; the last watch stays silent. */
async function reflect(
  script: { readonly lists: readonly Answer[]; readonly watches: readonly Answer[] },
  use: (reflected: Reflected) => Promise<void>,
): Promise<void> {
  const lists = [...script.lists];
  const watches = [...script.watches];
  await using server = await startScriptedServer((response, request) => {
    const answers = request.query.has("watch") ? watches : lists;
    const answer = answers.shift() ?? lines();
    answer(response, request);
  });
  const logger = createFakeLogger();
  const client = createKubeClient(server.config, {
    logger,
    clock,
    random: () => 0.99, // nearly no wait between attempts
    watchTimes: { headersMs: 1000, serverSeconds: 300, overdueMs: 30_000 },
  });
  const reflections: string[] = [];
  const subscription = client.reflect(PODS, { namespace: "ns" }).subscribe((reflection) => {
    reflections.push(describeReflection(reflection));
  });
  const stop = (): void => {
    subscription.unsubscribe();
  };
  const warnings = (): number => logger.lines.filter(({ level }) => level === "warn").length;
  try {
    await use({ reflections, server, warnings, stop });
  } finally {
    stop();
    await client.close();
  }
}

function watchVersions(server: ScriptedServer): readonly (string | null)[] {
  return server.requests
    .filter(({ query }) => query.has("watch"))
    .map(({ query }) => query.get("resourceVersion"));
}

function listCount(server: ScriptedServer): number {
  return server.requests.filter(({ query }) => !query.has("watch")).length;
}

test("stores neither field managers nor fields that its caller does not read", async () => {
  const stored = (name: string): object => {
    const managedFields = [{ manager: "m", fieldsV1: {} }];
    const metadata = { namespace: "ns", name, uid: name, resourceVersion: "6", managedFields };
    return { metadata, spec: { nodeName: "n", containers: [] } };
  };
  const answers = [buildList("5", [stored("a")]), lines(event("ADDED", stored("b")))];
  await using server = await startScriptedServer((response, request) => {
    (answers.shift() ?? lines())(response, request);
  });
  const client = createKubeClient(server.config, { logger: createFakeLogger(), clock });
  const observed: Pod[] = [];
  const trim = (pod: Pod): Pod => ({ ...pod, spec: { containers: [] } });
  const subscription = client.reflect(PODS, { trim }).subscribe((reflection) => {
    observed.push(...(reflection.kind === "listed" ? reflection.objects : [reflection.object]));
  });
  await eventually(() => observed.length === 2);
  subscription.unsubscribe();
  await client.close();
  for (const pod of observed) {
    expect(pod.spec).toEqual({ containers: [] });
    expect(pod.metadata).not.toHaveProperty("managedFields");
  }
});

describe("a reflector", () => {
  test("lists, then watches from there with bookmarks", async () => {
    const script = {
      lists: [buildList("5", [buildPod("a", "3")])],
      watches: [
        lines(
          event("ADDED", buildPod("b", "6")),
          event("MODIFIED", buildPod("a", "7")),
          event("DELETED", buildPod("b", "8")),
        ),
      ],
    };
    await reflect(script, async ({ reflections, server }) => {
      await eventually(() => reflections.length === 4);
      expect(reflections).toEqual(["list a", "+b@6", "+a@7", "-b"]);
      const watch = server.requests[1];
      expect(watch?.path).toBe("/api/v1/namespaces/ns/pods");
      expect(watch?.query.get("resourceVersion")).toBe("5");
      expect(watch?.query.get("allowWatchBookmarks")).toBe("true");
      expect(Number(watch?.query.get("timeoutSeconds"))).toBeGreaterThanOrEqual(300);
    });
  });

  test("reads a list page by page", async () => {
    const script = {
      lists: [buildList("5", [buildPod("a", "1")], "next"), buildList("5", [buildPod("b", "2")])],
      watches: [],
    };
    await reflect(script, async ({ reflections, server }) => {
      await eventually(() => reflections.length === 1);
      expect(reflections).toEqual(["list a,b"]);
      expect(server.requests[0]?.query.get("limit")).toBe("500");
      expect(server.requests[1]?.query.get("continue")).toBe("next");
    });
  });

  test("lists without pages when the server loses the continuation between two pages", async () => {
    const script = {
      lists: [
        buildList("5", [buildPod("a", "1")], "next"),
        failure(410, "Expired"),
        buildList("9", [buildPod("a", "1"), buildPod("b", "2")]),
      ],
      watches: [],
    };
    await reflect(script, async ({ reflections, server }) => {
      await eventually(() => reflections.length === 1);
      expect(reflections).toEqual(["list a,b"]);
      expect(server.requests[2]?.query.has("limit")).toBe(false);
    });
  });

  const resumes: readonly {
    readonly name: string;
    readonly first: Answer;
    readonly breakOff?: (reflected: Reflected) => Promise<void>;
    readonly want: string;
  }[] = [
    {
      name: "a clean end",
      first: (response, request) => {
        lines(event("ADDED", buildPod("b", "6")))(response, request);
        response.end();
      },
      want: "6",
    },
    {
      name: "a connection reset",
      first: lines(event("ADDED", buildPod("b", "6"))),
      breakOff: async ({ reflections, server }) => {
        await eventually(() => reflections.includes("+b@6"));
        server.cut();
      },
      want: "6",
    },
    {
      name: "a break within a line",
      first: (response, request) => {
        lines(event("ADDED", buildPod("b", "6")))(response, request);
        response.end('{"type":"MODIFIED","obj');
      },
      want: "6",
    },
    {
      name: "a bookmark",
      first: (response, request) => {
        const added = event("ADDED", buildPod("b", "6"));
        lines(added, event("BOOKMARK", { metadata: { resourceVersion: "99" } }))(response, request);
        response.end();
      },
      want: "99",
    },
    {
      name: "a rejected watch",
      first: failure(500, "InternalError"),
      want: "5",
    },
  ];
  test.each(resumes)(
    "resumes at the last version after $name, without a list",
    async ({ first, breakOff, want }) => {
      const script = {
        lists: [buildList("5", [])],
        watches: [first, lines(event("ADDED", buildPod("c", "100")))],
      };
      await reflect(script, async (reflected) => {
        await breakOff?.(reflected);
        const { reflections, server } = reflected;
        await eventually(() => reflections.includes("+c@100"));
        expect(watchVersions(server)[1]).toBe(want);
        expect(listCount(server)).toBe(1);
      });
    },
  );

  const relists: readonly { name: string; first: Answer }[] = [
    {
      name: "its version has expired (event)",
      first: lines(event("ERROR", { kind: "Status", code: 410, reason: "Expired", metadata: {} })),
    },
    { name: "its version has expired (answer)", first: failure(410, "Gone") },
    { name: "a line is not JSON", first: lines("garbage") },
    { name: "a line is not an event", first: lines('{"type":"WHAT","object":{}}') },
    { name: "an event has no object", first: lines('{"type":"ADDED"}') },
    { name: "an event's object is a list", first: lines('{"type":"ADDED","object":[]}') },
    { name: "an object has no metadata", first: lines('{"type":"ADDED","object":{}}') },
    { name: "a line is null", first: lines("null") },
  ];
  test.each(relists)("lists again when $name", async ({ first }) => {
    const script = {
      lists: [buildList("5", [buildPod("a", "1")]), buildList("50", [buildPod("b", "2")])],
      watches: [first],
    };
    await reflect(script, async ({ reflections, server }) => {
      await eventually(() => reflections.length === 2);
      expect(reflections).toEqual(["list a", "list b"]);
      await eventually(() => watchVersions(server).length === 2);
      expect(watchVersions(server)).toEqual(["5", "50"]);
    });
  });

  test("retries while the server fails, and warns at the third, sixth and twelfth failure", async () => {
    const failed = failure(503, "ServiceUnavailable");
    const script = {
      lists: [...Array.from({ length: 7 }, () => failed), buildList("5", [buildPod("a", "1")])],
      watches: [],
    };
    await reflect(script, async ({ reflections, warnings }) => {
      await eventually(() => reflections.length === 1);
      expect(warnings()).toBe(2);
    });
  });

  test("decodes a character that is split between two chunks", async () => {
    const bytes = Buffer.from(`${event("ADDED", buildPod("grün", "6"))}\n`);
    const cut = bytes.indexOf("ü") + 1;
    const script = {
      lists: [buildList("5", [])],
      watches: [
        (response: Parameters<Answer>[0]) => {
          response.write(bytes.subarray(0, cut), () => response.write(bytes.subarray(cut)));
        },
      ],
    };
    await reflect(script, async ({ reflections }) => {
      await eventually(() => reflections.length === 2);
      expect(reflections[1]).toBe("+grün@6");
    });
  });

  test("reports nothing after the stop, and may be stopped twice", async () => {
    const pending = Promise.withResolvers<() => void>();
    const script = {
      lists: [
        (response: Parameters<Answer>[0], request: Parameters<Answer>[1]) => {
          pending.resolve(() => {
            buildList("5", [buildPod("a", "1")])(response, request);
          });
        },
      ],
      watches: [],
    };
    await reflect(script, async ({ reflections, server, stop }) => {
      const answer = await pending.promise;
      stop();
      stop();
      answer();
      await clock.sleep(50, new AbortController().signal);
      expect(reflections).toEqual([]);
      expect(server.requests).toHaveLength(1);
    });
  });
});
