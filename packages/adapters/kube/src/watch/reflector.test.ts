// SPDX-License-Identifier: Apache-2.0
import { type Pod, PODS } from "@patchbay/api";
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
import { type Reflection, withoutBookkeeping } from "./reflector.ts";

const METADATA = { name: "a", namespace: "ns", uid: "u", resourceVersion: "3" };

function thing(more: object): { apiVersion: string; kind: string; metadata: typeof METADATA } {
  return { apiVersion: "v1", kind: "Thing", metadata: { ...METADATA, ...more } };
}

const APPLIED = { "kubectl.kubernetes.io/last-applied-configuration": "{}" };

test.each([
  { name: "field managers", given: { managedFields: [{ manager: "m" }] }, want: {} },
  { name: "what was applied", given: { annotations: APPLIED }, want: { annotations: {} } },
  {
    name: "no other annotation",
    given: { annotations: { ...APPLIED, a: "b" } },
    want: { annotations: { a: "b" } },
  },
  {
    name: "nothing else",
    given: { labels: { a: "b" }, finalizers: ["f"] },
    want: { labels: { a: "b" }, finalizers: ["f"] },
  },
])("is left out: $name", ({ given, want }) => {
  const whole = { ...thing(given), spec: { a: 1 } };
  expect(withoutBookkeeping(whole)).toEqual({ ...thing(want), spec: { a: 1 } });
});

function podOf(name: string, resourceVersion: string): object {
  return { metadata: { namespace: "ns", name, uid: `uid-${name}`, resourceVersion } };
}

function listOf(resourceVersion: string, pods: readonly object[], next?: string): Answer {
  const metadata = { resourceVersion, ...(next !== undefined && { continue: next }) };
  return json(200, { kind: "PodList", apiVersion: "v1", metadata, items: pods });
}

function event(type: string, object: object): string {
  return JSON.stringify({ type, object });
}

/** What a reflector tells, as words: `list a,b`, `+a@3`, `-a`. */
function toWord(reflection: Reflection<Pod>): string {
  if (reflection.kind === "listed") {
    return `list ${reflection.objects.map((pod) => pod.metadata.name).join(",")}`;
  }
  const { name, resourceVersion } = reflection.object.metadata;
  return reflection.kind === "removed" ? `-${name}` : `+${name}@${resourceVersion ?? ""}`;
}

interface Reflected {
  readonly words: readonly string[];
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
  await using server = await startScriptedServer((response, seen) => {
    const answers = seen.query.has("watch") ? watches : lists;
    const answer = answers.shift() ?? lines();
    answer(response, seen);
  });
  const logger = createFakeLogger();
  const client = createKubeClient(server.config, {
    logger,
    clock,
    random: () => 0.99, // nearly no wait between attempts
    watchTimes: { headersMs: 1000, serverSeconds: 300, overdueMs: 30_000 },
  });
  const words: string[] = [];
  const subscription = client.reflect(PODS, { namespace: "ns" }).subscribe((reflection) => {
    words.push(toWord(reflection));
  });
  const stop = (): void => {
    subscription.unsubscribe();
  };
  const warnings = (): number => logger.lines.filter(({ level }) => level === "warn").length;
  try {
    await use({ words, server, warnings, stop });
  } finally {
    stop();
    await client.close();
  }
}

function watchVersions(server: ScriptedServer): readonly (string | null)[] {
  return server.seen
    .filter(({ query }) => query.has("watch"))
    .map(({ query }) => query.get("resourceVersion"));
}

function listCount(server: ScriptedServer): number {
  return server.seen.filter(({ query }) => !query.has("watch")).length;
}

test("keeps neither field managers nor what its caller does not read", async () => {
  const stored = (name: string): object => {
    const managedFields = [{ manager: "m", fieldsV1: {} }];
    const metadata = { namespace: "ns", name, uid: name, resourceVersion: "6", managedFields };
    return { metadata, spec: { nodeName: "n", containers: [] } };
  };
  const answers = [listOf("5", [stored("a")]), lines(event("ADDED", stored("b")))];
  await using server = await startScriptedServer((response, seen) => {
    (answers.shift() ?? lines())(response, seen);
  });
  const client = createKubeClient(server.config, { logger: createFakeLogger(), clock });
  const seen: Pod[] = [];
  const trim = (pod: Pod): Pod => ({ ...pod, spec: { containers: [] } });
  const subscription = client.reflect(PODS, { trim }).subscribe((told) => {
    seen.push(...(told.kind === "listed" ? told.objects : [told.object]));
  });
  await eventually(() => seen.length === 2);
  subscription.unsubscribe();
  await client.close();
  for (const pod of seen) {
    expect(pod.spec).toEqual({ containers: [] });
    expect(pod.metadata).not.toHaveProperty("managedFields");
  }
});

describe("a reflector", () => {
  test("lists, then watches from there with bookmarks", async () => {
    const script = {
      lists: [listOf("5", [podOf("a", "3")])],
      watches: [
        lines(
          event("ADDED", podOf("b", "6")),
          event("MODIFIED", podOf("a", "7")),
          event("DELETED", podOf("b", "8")),
        ),
      ],
    };
    await reflect(script, async ({ words, server }) => {
      await eventually(() => words.length === 4);
      expect(words).toEqual(["list a", "+b@6", "+a@7", "-b"]);
      const watch = server.seen[1];
      expect(watch?.path).toBe("/api/v1/namespaces/ns/pods");
      expect(watch?.query.get("resourceVersion")).toBe("5");
      expect(watch?.query.get("allowWatchBookmarks")).toBe("true");
      expect(Number(watch?.query.get("timeoutSeconds"))).toBeGreaterThanOrEqual(300);
    });
  });

  test("reads a list page by page", async () => {
    const script = {
      lists: [listOf("5", [podOf("a", "1")], "next"), listOf("5", [podOf("b", "2")])],
      watches: [],
    };
    await reflect(script, async ({ words, server }) => {
      await eventually(() => words.length === 1);
      expect(words).toEqual(["list a,b"]);
      expect(server.seen[0]?.query.get("limit")).toBe("500");
      expect(server.seen[1]?.query.get("continue")).toBe("next");
    });
  });

  test("lists without pages when the server lost its place between two", async () => {
    const script = {
      lists: [
        listOf("5", [podOf("a", "1")], "next"),
        failure(410, "Expired"),
        listOf("9", [podOf("a", "1"), podOf("b", "2")]),
      ],
      watches: [],
    };
    await reflect(script, async ({ words, server }) => {
      await eventually(() => words.length === 1);
      expect(words).toEqual(["list a,b"]);
      expect(server.seen[2]?.query.has("limit")).toBe(false);
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
      first: (response, seen) => {
        lines(event("ADDED", podOf("b", "6")))(response, seen);
        response.end();
      },
      want: "6",
    },
    {
      name: "a reset",
      first: lines(event("ADDED", podOf("b", "6"))),
      breakOff: async ({ words, server }) => {
        await eventually(() => words.includes("+b@6"));
        server.cut();
      },
      want: "6",
    },
    {
      name: "a cut within a line",
      first: (response, seen) => {
        lines(event("ADDED", podOf("b", "6")))(response, seen);
        response.end('{"type":"MODIFIED","obj');
      },
      want: "6",
    },
    {
      name: "a bookmark",
      first: (response, seen) => {
        const added = event("ADDED", podOf("b", "6"));
        lines(added, event("BOOKMARK", { metadata: { resourceVersion: "99" } }))(response, seen);
        response.end();
      },
      want: "99",
    },
    {
      name: "a refused watch",
      first: failure(500, "InternalError"),
      want: "5",
    },
  ];
  test.each(resumes)(
    "goes on where it was after $name, without a list",
    async ({ first, breakOff, want }) => {
      const script = {
        lists: [listOf("5", [])],
        watches: [first, lines(event("ADDED", podOf("c", "100")))],
      };
      await reflect(script, async (reflected) => {
        await breakOff?.(reflected);
        const { words, server } = reflected;
        await eventually(() => words.includes("+c@100"));
        expect(watchVersions(server)[1]).toBe(want);
        expect(listCount(server)).toBe(1);
      });
    },
  );

  const relists: readonly { name: string; first: Answer }[] = [
    {
      name: "its place is too old (event)",
      first: lines(event("ERROR", { kind: "Status", code: 410, reason: "Expired", metadata: {} })),
    },
    { name: "its place is too old (answer)", first: failure(410, "Gone") },
    { name: "a line is no JSON", first: lines("garbage") },
    { name: "a line is no event", first: lines('{"type":"WHAT","object":{}}') },
    { name: "an event has no object", first: lines('{"type":"ADDED"}') },
    { name: "an event has a list for its object", first: lines('{"type":"ADDED","object":[]}') },
    { name: "an object has no metadata", first: lines('{"type":"ADDED","object":{}}') },
    { name: "a line is null", first: lines("null") },
  ];
  test.each(relists)("lists again when $name", async ({ first }) => {
    const script = {
      lists: [listOf("5", [podOf("a", "1")]), listOf("50", [podOf("b", "2")])],
      watches: [first],
    };
    await reflect(script, async ({ words, server }) => {
      await eventually(() => words.length === 2);
      expect(words).toEqual(["list a", "list b"]);
      await eventually(() => watchVersions(server).length === 2);
      expect(watchVersions(server)).toEqual(["5", "50"]);
    });
  });

  test("goes on trying while the server fails, and warns the third time, the sixth, the twelfth", async () => {
    const failed = failure(503, "ServiceUnavailable");
    const script = {
      lists: [...Array.from({ length: 7 }, () => failed), listOf("5", [podOf("a", "1")])],
      watches: [],
    };
    await reflect(script, async ({ words, warnings }) => {
      await eventually(() => words.length === 1);
      expect(warnings()).toBe(2);
    });
  });

  test("a character that is cut in two arrives whole", async () => {
    const bytes = Buffer.from(`${event("ADDED", podOf("grün", "6"))}\n`);
    const cut = bytes.indexOf("ü") + 1;
    const script = {
      lists: [listOf("5", [])],
      watches: [
        (response: Parameters<Answer>[0]) => {
          response.write(bytes.subarray(0, cut), () => response.write(bytes.subarray(cut)));
        },
      ],
    };
    await reflect(script, async ({ words }) => {
      await eventually(() => words.length === 2);
      expect(words[1]).toBe("+grün@6");
    });
  });

  test("tells nothing after it was stopped, and may be stopped twice", async () => {
    const pending = Promise.withResolvers<() => void>();
    const script = {
      lists: [
        (response: Parameters<Answer>[0], seen: Parameters<Answer>[1]) => {
          pending.resolve(() => {
            listOf("5", [podOf("a", "1")])(response, seen);
          });
        },
      ],
      watches: [],
    };
    await reflect(script, async ({ words, server, stop }) => {
      const answer = await pending.promise;
      stop();
      stop();
      answer();
      await clock.sleep(50, new AbortController().signal);
      expect(words).toEqual([]);
      expect(server.seen).toHaveLength(1);
    });
  });
});
