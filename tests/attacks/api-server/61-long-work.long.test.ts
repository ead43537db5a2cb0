// SPDX-License-Identifier: Apache-2.0
// One user's objects that could block other clients.
import { afterAll, beforeAll, expect, test } from "vitest";
import { ApiServerProcess, GREETING_MS } from "../api-server-process.ts";

const MAPS = "/api/v1/namespaces/default/configmaps";
const AT_ONCE = 20;
const FEWER = 8;
/** Longest blocking in processor time, because wall clock depends on the machine's load. */
const TURN_MS = 150;

let api: ApiServerProcess;

beforeAll(async () => {
  api = await ApiServerProcess.start();
  await api.ask("POST", MAPS, '{"metadata":{"name":"target"}}');
  await api.greet();
});
afterAll(() => api[Symbol.asyncDispose]());

function members(count: number): string {
  return Array.from({ length: count }, (_, index) => `"k${String(index)}":"v"`).join(",");
}

/** Measures the longest health check while `work` runs. */
async function greetDuring(work: Promise<unknown>): Promise<number> {
  const greetings: number[] = [];
  const stop = new AbortController();
  const end = work.finally(() => {
    stop.abort();
  });
  while (!stop.signal.aborted) greetings.push(await api.greet());
  await end;
  return Math.max(...greetings);
}

const MANY = members(230_000);
const FITTING = members(20_000);
const WRONG = FITTING.replaceAll('"k', '"!');

test.each([
  {
    count: AT_ONCE,
    what: "230,000 labels",
    body: `"metadata":{"name":"N","labels":{${MANY}}}`,
    code: 413,
  },
  {
    count: FEWER,
    what: "20,000 labels",
    body: `"metadata":{"name":"N","labels":{${FITTING}}}`,
    code: 201,
  },
  {
    count: FEWER,
    what: "20,000 wrong labels",
    body: `"metadata":{"name":"N","labels":{${WRONG}}}`,
    code: 422,
  },
  {
    count: FEWER,
    what: "20,000 entries",
    body: `"metadata":{"name":"N"},"data":{${FITTING}}`,
    code: 201,
  },
  {
    count: FEWER,
    what: "20,000 unknown fields",
    body: `"metadata":{"name":"N"},${FITTING}`,
    code: 201,
  },
  {
    count: AT_ONCE,
    what: "a long value",
    body: `"metadata":{"name":"N"},"data":{"a":"${"x".repeat(1_000_000)}"}`,
    code: 201,
  },
])(
  "attack 61: $count concurrent objects with $what do not block other clients",
  async ({ count, what, body, code }) => {
    await api.longestTurnMs();
    const posts = Array.from({ length: count }, (_, index) => {
      const name = `${what.replaceAll(/[^a-z0-9]/g, "-")}-${String(index)}`;
      return api.ask("POST", MAPS, `{${body.replace('"N"', `"${name}"`)}}`);
    });
    const greeting = await greetDuring(Promise.all(posts));
    expect(new Set((await Promise.all(posts)).map((answer) => answer.code))).toEqual(
      new Set([code]),
    );
    expect(greeting).toBeLessThan(GREETING_MS);
    expect(await api.longestTurnMs()).toBeLessThan(TURN_MS);
  },
);

test("attack 61: small patches of a large object and lists of large objects do not block other clients", async () => {
  await api.ask("PATCH", `${MAPS}/target`, `{"data":{${FITTING}}}`);
  await api.longestTurnMs();
  const work = [
    ...Array.from({ length: FEWER }, (_, index) =>
      api.ask("PATCH", `${MAPS}/target`, `{"data":{"k${String(index)}":"w"}}`),
    ),
    api.ask("GET", `${MAPS}?labelSelector=k1`),
  ];
  expect(await greetDuring(Promise.all(work))).toBeLessThan(GREETING_MS);
  expect(await api.longestTurnMs()).toBeLessThan(TURN_MS);
});

test("attack 61: rejects 20,000 lines of YAML immediately", async () => {
  const body = `metadata:\n  name: y\ndata:\n${FITTING.replaceAll(",", "\n").replaceAll('"k', '  "k')}`;
  const answer = await api.sendAs("application/yaml", MAPS, body);
  expect(answer.code).toBe(413);
});

test("attack 61: rejects an object larger than 1.5 MiB and reports at most eight errors", async () => {
  const env = Array.from({ length: 13 }, () => ({ name: "A", value: "x".repeat(125_000) }));
  const pod = { metadata: { name: "p" }, spec: { containers: [{ name: "c", image: "i", env }] } };
  const large = await api.ask("POST", "/api/v1/namespaces/default/pods", JSON.stringify(pod));
  expect(large).toMatchObject({ code: 413 });
  const wrong = await api.ask("POST", MAPS, `{"metadata":{"name":"w","labels":{${WRONG}}}}`);
  // Causes for a body that was parsed.
  const { details } = JSON.parse(wrong.text) as { details: { causes: readonly unknown[] } };
  expect(details.causes).toHaveLength(8);
});
