// SPDX-License-Identifier: Apache-2.0
// Which steps of a plan are done, which are left alone, and what does one that fails keep from being done?
import { AppError } from "@patchbay/base";
import { createFakeClock, type FakeClock } from "@patchbay/os/testing";
import { beforeEach, expect, test } from "vitest";
import { createStepBackoff, type StepBackoff } from "../pace/step-backoff.ts";
import { earliest, runSteps, type FailedStep, type StepRules } from "./run-steps.ts";

/** A step by its name; `on`: one that it rests on. */
interface Action {
  readonly name: string;
  readonly on?: string;
}

const BUSY = new AppError("LIBVIRT_BUSY", { reason: "busy" });
/** What only a change mends. */
const MISSING = new AppError("KUBE_NOT_FOUND", { reason: "gone" });

let clock: FakeClock;
let backoff: StepBackoff<string>;
let attempts: string[];
let reports: string[];
let failing: Map<string, Error>;

beforeEach(() => {
  clock = createFakeClock();
  backoff = createStepBackoff({ clock, random: () => 0 });
  attempts = [];
  reports = [];
  failing = new Map();
});

function run(plan: readonly Action[], more: Partial<StepRules<Action, string>> = {}) {
  const perform = async ({ name }: Action): Promise<void> => {
    attempts.push(name);
    await Promise.resolve();
    const error = failing.get(name);
    if (error !== undefined) throw error;
  };
  return runSteps(plan, perform, {
    backoff,
    toStep: ({ name }) => ({ scope: "uid", name, inputs: "" }),
    explain: ({ name }) => ({ code: "CODE", summary: `${name} failed` }),
    report: ({ summary }) => {
      reports.push(summary);
    },
    ...more,
  });
}

const [ONE, TWO, THREE] = [{ name: "one" }, { name: "two" }, { name: "three" }];

test("a failed step does not block other steps, and is reported once", async () => {
  failing.set("two", BUSY);
  const { done, failed, retryInMs, thrown } = await run([ONE, TWO, THREE]);
  expect(done).toEqual([ONE, THREE]);
  expect(failed).toEqual([{ action: TWO, summary: "two failed", pauseMs: 1000, error: BUSY }]);
  expect([retryInMs, thrown, reports]).toEqual([1000, [], ["two failed"]]);
});

test("a failed step is held and listed during its delay, and retried afterwards", async () => {
  failing.set("one", BUSY);
  await run([ONE]);
  await clock.advance(400);
  const held = await run([ONE]);
  expect(held.failed).toEqual([{ action: ONE, summary: "one failed", pauseMs: 600 }]);
  expect([held.retryInMs, attempts, reports]).toEqual([600, ["one"], ["one failed"]]);
  await clock.advance(600);
  failing.clear();
  expect((await run([ONE])).done).toEqual([ONE]);
});

test("a failure that only a change can fix delays a minute, also as the first of several", async () => {
  failing.set("one", MISSING).set("two", new AggregateError([MISSING, BUSY]));
  const { failed } = await run([ONE, TWO]);
  expect(failed.map(({ pauseMs }) => pauseMs)).toEqual([60_000, 60_000]);
});

test("a step that depends on a failed step is skipped and not reported itself", async () => {
  failing.set("one", BUSY);
  const findWaitReason = ({ on }: Action, before: readonly FailedStep<Action, string>[]) =>
    before.some(({ action }) => action.name === on) ? ("skip" as const) : undefined;
  const { done, failed } = await run([ONE, { name: "two", on: "one" }, THREE], { findWaitReason });
  expect(done).toEqual([THREE]);
  expect(failed.map(({ action }) => action.name)).toEqual(["one"]);
  expect(attempts).toEqual(["one", "three"]);
});

test.each([
  { pauseMs: 5, retryInMs: 5 },
  { pauseMs: undefined, retryInMs: undefined },
])(
  "a step that waits for something else is listed without an attempt, pause $pauseMs",
  async ({ pauseMs, retryInMs }) => {
    const result = await run([ONE], { findWaitReason: () => ({ summary: "waits", pauseMs }) });
    expect(result).toEqual({
      done: [],
      failed: [{ action: ONE, summary: "waits", pauseMs }],
      retryInMs,
      thrown: [],
    });
    expect([attempts, reports]).toEqual([[], []]);
  },
);

test("rethrows an unexplained error at the end, and retries its step at once", async () => {
  failing.set("one", BUSY);
  const explain = () => undefined;
  const first = await run([ONE, TWO], { explain });
  expect(first).toMatchObject({ done: [TWO], failed: [], thrown: [BUSY] });
  await run([ONE], { explain });
  expect(attempts).toEqual(["one", "two", "one"]);
});

test("an action without a step ends the plan on failure, and so does an error while explaining", async () => {
  failing.set("one", BUSY);
  await expect(run([ONE, TWO], { toStep: () => undefined })).rejects.toBe(BUSY);
  const explain = (_: Action, error: unknown): never => {
    throw error as Error;
  };
  await expect(run([ONE, TWO], { explain })).rejects.toBe(BUSY);
  expect(attempts).toEqual(["one", "one"]);
});

test.each([
  { times: [], want: undefined },
  { times: [undefined, undefined], want: undefined },
  { times: [1, undefined], want: 1 },
  { times: [2, 1, 3], want: 1 },
])("the earliest of $times is $want", ({ times, want }) => {
  expect(earliest(times)).toBe(want);
});
