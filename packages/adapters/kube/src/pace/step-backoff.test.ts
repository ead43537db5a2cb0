// SPDX-License-Identifier: Apache-2.0
import { type FakeClock, createFakeClock } from "@patchbay/os/testing";
import { describe, expect, test } from "vitest";
import { createStepBackoff, type StepBackoff, type Step } from "./step-backoff.ts";

const step: Step = { scope: "uid-1", name: "attach:net1", inputs: "generation 1" };

function setUp(random = 0): { clock: FakeClock; backoff: StepBackoff<string> } {
  const clock = createFakeClock();
  return { clock, backoff: createStepBackoff<string>({ clock, random: () => random }) };
}

/** One attempt, as [code, inputs]. */
type Attempt = readonly [code: string, inputs: string];

const seconds = (delaysMs: readonly number[]): readonly number[] => delaysMs.map((ms) => ms / 1000);

describe("delays of a step", () => {
  const same: readonly Attempt[] = Array.from({ length: 8 }, () => ["REFUSED", "1"]);
  const cases: readonly { name: string; attempts: readonly Attempt[]; want: readonly number[] }[] =
    [
      { name: "grow and are capped", attempts: same, want: [1, 2, 4, 8, 16, 32, 60, 60] },
      {
        name: "restart with another error code",
        attempts: [
          ["A", "1"],
          ["A", "1"],
          ["B", "1"],
          ["B", "1"],
        ],
        want: [1, 2, 1, 2],
      },
      {
        name: "restart when the inputs change",
        attempts: [
          ["A", "1"],
          ["A", "1"],
          ["A", "2"],
        ],
        want: [1, 2, 1],
      },
      {
        name: "grow eventually even if the inputs change each time",
        attempts: Array.from({ length: 12 }, (_, at) => ["A", String(at)]),
        want: [1, 1, 1, 1, 1, 1, 2, 4, 8, 16, 32, 60],
      },
      {
        name: "grow eventually when two error codes alternate",
        attempts: Array.from({ length: 12 }, (_, at) => [at % 2 === 0 ? "A" : "B", "1"]),
        want: [1, 1, 1, 1, 1, 1, 2, 4, 8, 16, 32, 60],
      },
    ];
  test.each(cases)("$name", ({ attempts, want }) => {
    const { backoff } = setUp();
    const delays = attempts.map(([code, inputs]) =>
      backoff.fail({ ...step, inputs }, { code, summary: "" }),
    );
    expect(seconds(delays)).toEqual(want);
  });

  test("vary randomly by a fifth", () => {
    expect(setUp(1).backoff.fail(step, { code: "A", summary: "" })).toBe(800);
  });

  test("are at least as long as requested if only a change helps", () => {
    expect(setUp().backoff.fail(step, { code: "A", summary: "", minDelayMs: 5000 })).toBe(5000);
  });

  test("hold the step, with the last failure's message, until they end", async () => {
    const { clock, backoff } = setUp();
    expect(backoff.findDelay(step)).toBeUndefined();
    backoff.fail(step, { code: "A", summary: "MAC 02:00" });
    backoff.fail(step, { code: "A", summary: "MAC 02:01" });
    await clock.advance(1500);
    expect(backoff.findDelay(step)).toEqual({ summary: "MAC 02:01", pauseMs: 500, failures: 2 });
    await clock.advance(500);
    expect(backoff.findDelay(step)).toBeUndefined();
  });

  test("end when the inputs change, and do not hold other steps", () => {
    const { backoff } = setUp();
    backoff.fail(step, { code: "A", summary: "" });
    expect(backoff.findDelay({ ...step, inputs: "generation 2" })).toBeUndefined();
    expect(backoff.findDelay({ ...step, name: "attach:net2" })).toBeUndefined();
    expect(backoff.findDelay({ ...step, scope: "uid-2" })).toBeUndefined();
    expect(backoff.findDelay(step)).toBeDefined();
  });

  test("allow about two attempts a minute when the inputs change at each attempt", async () => {
    const { clock, backoff } = setUp();
    let attempts = 0;
    for (let attempt = 0; attempt < 36_000; attempt += 1) {
      const now = { ...step, inputs: String(attempt) };
      if (backoff.findDelay(now) === undefined) {
        attempts += 1;
        backoff.fail(now, { code: "A", summary: "" });
      }
      await clock.advance(100);
    }
    expect(attempts).toBeLessThan(150);
  });

  test("start afresh after a success", () => {
    const { backoff } = setUp();
    backoff.fail(step, { code: "A", summary: "" });
    backoff.fail(step, { code: "A", summary: "" });
    backoff.succeed(step);
    expect(backoff.findDelay(step)).toBeUndefined();
    expect(backoff.fail(step, { code: "A", summary: "" })).toBe(1000);
  });

  test("are forgotten with their scope or their step's name", () => {
    const { backoff } = setUp();
    const other = { ...step, name: "attach:net2" };
    for (const one of [step, other, { ...step, scope: "uid-2" }]) {
      backoff.fail(one, { code: "A", summary: "" });
    }
    backoff.retain("uid-1", ["attach:net2"]);
    expect(backoff.findDelay(step)).toBeUndefined();
    expect(backoff.findDelay(other)).toBeDefined();
    backoff.forget("uid-1");
    expect(backoff.findDelay(other)).toBeUndefined();
    expect(backoff.findDelay({ ...step, scope: "uid-2" })).toBeDefined();
  });

  test("start afresh after their scope was forgotten", () => {
    const { backoff } = setUp();
    const fail = (at: number): number =>
      backoff.fail({ ...step, inputs: String(at) }, { code: "A", summary: "" });
    for (let at = 0; at < 8; at += 1) fail(at);
    expect(fail(8)).toBeGreaterThan(1000);
    backoff.forget("uid-1");
    backoff.forget("uid-1"); // nothing is left of it
    expect([fail(9), fail(10), fail(11)]).toEqual([1000, 1000, 1000]);
  });

  test("are remembered longest for the step that failed last", () => {
    const { backoff } = setUp();
    const fail = (scope: string): number =>
      backoff.fail({ ...step, scope }, { code: "A", summary: "" });
    for (let i = 0; i < 10_000; i += 1) fail(`uid ${String(i)}`);
    fail("uid 0");
    fail("one more"); // in place of uid 1
    const isHeld = (scope: string): boolean => backoff.findDelay({ ...step, scope }) !== undefined;
    expect(["uid 0", "uid 1", "uid 2"].map(isHeld)).toEqual([true, false, true]);
  });

  test("are remembered for a limited number of steps", () => {
    const { backoff } = setUp();
    backoff.fail(step, { code: "A", summary: "" });
    for (let i = 0; i < 10_000; i += 1) {
      backoff.fail({ ...step, scope: `uid ${String(i)}` }, { code: "A", summary: "" });
    }
    expect(backoff.findDelay(step)).toBeUndefined();
    expect(backoff.findDelay({ ...step, scope: "uid 9999" })).toBeDefined();
  });
});
