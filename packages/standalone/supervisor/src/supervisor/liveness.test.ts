// SPDX-License-Identifier: Apache-2.0
// When does a component count as standing still? On a clock of the test, and by a real server.
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createFakeClock } from "@patchbay/os/testing";
import { expect, test } from "vitest";
import { checkHealth, waitUntilHung } from "./liveness.ts";

/** Answers of one component, a period each: `a` it answers, `n` it says no, `.` it says nothing. */
async function isStillAfter(answers: string): Promise<boolean> {
  const clock = createFakeClock();
  const stop = new AbortController();
  let outgoing = 0;
  const check = (signal: AbortSignal): Promise<void> => {
    const answer = answers[outgoing] ?? ".";
    outgoing += 1;
    if (answer === "a") return Promise.resolve();
    if (answer === "n") return Promise.reject(new Error("no"));
    return once(signal, "abort").then(() => Promise.reject(new Error("late")));
  };
  let isStill = false;
  const waiting = waitUntilHung({ clock, check, signal: stop.signal }).then(
    () => {
      isStill = true;
    },
    () => undefined,
  );
  for (let turn = 0; turn < answers.length; turn += 1) await clock.advance(10_000);
  stop.abort(new Error("the test is over"));
  await waiting;
  return isStill;
}

test.each([
  { name: "answers", answers: "aaaaaaaa", want: false },
  { name: "misses two", answers: "aa..a..a", want: false },
  { name: "does not respond for 30 s", answers: "a...", want: true },
  { name: "reports errors for 30 s", answers: "annn", want: true },
  { name: "alternates between errors and missing responses", answers: "an.n", want: true },
  { name: "is slow to start", answers: ".....a..", want: false },
  { name: "never starts", answers: "......", want: true },
  { name: "stops responding right after its start", answers: "..a...", want: true },
])("a component that $name hangs: $want", async ({ answers, want }) => {
  expect(await isStillAfter(answers)).toBe(want);
});

test.each([
  { name: "lives", status: 200, want: "alive" },
  { name: "reports an error", status: 500, want: "status 500" },
])("the health check detects that a component $name", async ({ status, want }) => {
  const socketPath = join(tmpdir(), `health-${randomUUID()}`);
  const server = createServer(({ url }, response) => {
    response.writeHead(url === "/healthz" ? status : 404).end();
  });
  await once(server.listen(socketPath), "listening");
  const outgoing = checkHealth(socketPath, AbortSignal.timeout(5000));
  expect(
    await outgoing.then(
      () => "alive",
      (error: unknown) => (error instanceof Error ? error.message : error),
    ),
  ).toBe(want);
  server.close();
});

test("a component without a listener on its socket is not alive", async () => {
  const outgoing = checkHealth(join(tmpdir(), randomUUID()), AbortSignal.timeout(5000));
  await expect(outgoing).rejects.toMatchObject({ code: "ENOENT" });
});
