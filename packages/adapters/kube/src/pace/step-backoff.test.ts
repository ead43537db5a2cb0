// SPDX-License-Identifier: Apache-2.0
import { type FakeClock, createFakeClock } from "@patchbay/os/testing";
import { describe, expect, test } from "vitest";
import { createStepBackoff, type StepBackoff, type Step } from "./step-backoff.ts";

const step: Step = { scope: "uid-1", name: "attach:net1", circumstances: "generation 1" };

function setUp(random = 0): { clock: FakeClock; pauses: StepBackoff<string> } {
  const clock = createFakeClock();
  return { clock, pauses: createStepBackoff<string>({ clock, random: () => random }) };
}

/** One attempt, as [code, circumstances]. */
type Attempt = readonly [code: string, circumstances: string];

const seconds = (pauses: readonly number[]): readonly number[] => pauses.map((ms) => ms / 1000);

describe("pauses of a step", () => {
  const same: readonly Attempt[] = Array.from({ length: 8 }, () => ["REFUSED", "1"]);
  const cases: readonly { name: string; attempts: readonly Attempt[]; want: readonly number[] }[] =
    [
      { name: "grow and are capped", attempts: same, want: [1, 2, 4, 8, 16, 32, 60, 60] },
      {
        name: "begin anew with another code",
        attempts: [
          ["A", "1"],
          ["A", "1"],
          ["B", "1"],
          ["B", "1"],
        ],
        want: [1, 2, 1, 2],
      },
      {
        name: "begin anew under other circumstances",
        attempts: [
          ["A", "1"],
          ["A", "1"],
          ["A", "2"],
        ],
        want: [1, 2, 1],
      },
      {
        name: "grow in the end when the circumstances are others each time",
        attempts: Array.from({ length: 12 }, (_, at) => ["A", String(at)]),
        want: [1, 1, 1, 1, 1, 1, 2, 4, 8, 16, 32, 60],
      },
      {
        name: "grow in the end when two codes take turns",
        attempts: Array.from({ length: 12 }, (_, at) => [at % 2 === 0 ? "A" : "B", "1"]),
        want: [1, 1, 1, 1, 1, 1, 2, 4, 8, 16, 32, 60],
      },
    ];
  test.each(cases)("$name", ({ attempts, want }) => {
    const { pauses } = setUp();
    const got = attempts.map(([code, circumstances]) =>
      pauses.fail({ ...step, circumstances }, { code, shown: "" }),
    );
    expect(seconds(got)).toEqual(want);
  });

  test("are random by a fifth", () => {
    expect(setUp(1).pauses.fail(step, { code: "A", shown: "" })).toBe(800);
  });

  test("are as long as asked for where only a change helps", () => {
    expect(setUp().pauses.fail(step, { code: "A", shown: "", atLeastMs: 5000 })).toBe(5000);
  });

  test("hold the step, with the words of the last failure, until they are over", async () => {
    const { clock, pauses } = setUp();
    expect(pauses.findHeld(step)).toBeUndefined();
    pauses.fail(step, { code: "A", shown: "MAC 02:00" });
    pauses.fail(step, { code: "A", shown: "MAC 02:01" });
    await clock.advance(1500);
    expect(pauses.findHeld(step)).toEqual({ shown: "MAC 02:01", pauseMs: 500, failures: 2 });
    await clock.advance(500);
    expect(pauses.findHeld(step)).toBeUndefined();
  });

  test("end when the circumstances change, and hold no other step", () => {
    const { pauses } = setUp();
    pauses.fail(step, { code: "A", shown: "" });
    expect(pauses.findHeld({ ...step, circumstances: "generation 2" })).toBeUndefined();
    expect(pauses.findHeld({ ...step, name: "attach:net2" })).toBeUndefined();
    expect(pauses.findHeld({ ...step, scope: "uid-2" })).toBeUndefined();
    expect(pauses.findHeld(step)).toBeDefined();
  });

  test("let through about two attempts a minute when the circumstances differ at each look", async () => {
    const { clock, pauses } = setUp();
    let attempts = 0;
    for (let look = 0; look < 36_000; look += 1) {
      const now = { ...step, circumstances: String(look) };
      if (pauses.findHeld(now) === undefined) {
        attempts += 1;
        pauses.fail(now, { code: "A", shown: "" });
      }
      await clock.advance(100);
    }
    expect(attempts).toBeLessThan(150);
  });

  test("begin anew after a success", () => {
    const { pauses } = setUp();
    pauses.fail(step, { code: "A", shown: "" });
    pauses.fail(step, { code: "A", shown: "" });
    pauses.succeed(step);
    expect(pauses.findHeld(step)).toBeUndefined();
    expect(pauses.fail(step, { code: "A", shown: "" })).toBe(1000);
  });

  test("are forgotten with their scope, or with their names", () => {
    const { pauses } = setUp();
    const other = { ...step, name: "attach:net2" };
    for (const one of [step, other, { ...step, scope: "uid-2" }]) {
      pauses.fail(one, { code: "A", shown: "" });
    }
    pauses.retain("uid-1", ["attach:net2"]);
    expect(pauses.findHeld(step)).toBeUndefined();
    expect(pauses.findHeld(other)).toBeDefined();
    pauses.forget("uid-1");
    expect(pauses.findHeld(other)).toBeUndefined();
    expect(pauses.findHeld({ ...step, scope: "uid-2" })).toBeDefined();
  });

  test("are news again after their scope was forgotten", () => {
    const { pauses } = setUp();
    const fail = (at: number): number =>
      pauses.fail({ ...step, circumstances: String(at) }, { code: "A", shown: "" });
    for (let at = 0; at < 8; at += 1) fail(at);
    expect(fail(8)).toBeGreaterThan(1000);
    pauses.forget("uid-1");
    pauses.forget("uid-1"); // nothing is left of it
    expect([fail(9), fail(10), fail(11)]).toEqual([1000, 1000, 1000]);
  });

  test("of the step that failed again last are remembered the longest", () => {
    const { pauses } = setUp();
    const fail = (scope: string): number =>
      pauses.fail({ ...step, scope }, { code: "A", shown: "" });
    for (let i = 0; i < 10_000; i += 1) fail(`uid ${String(i)}`);
    fail("uid 0");
    fail("one more"); // in place of uid 1
    const isHeld = (scope: string): boolean => pauses.findHeld({ ...step, scope }) !== undefined;
    expect(["uid 0", "uid 1", "uid 2"].map(isHeld)).toEqual([true, false, true]);
  });

  test("are remembered for so many steps only", () => {
    const { pauses } = setUp();
    pauses.fail(step, { code: "A", shown: "" });
    for (let i = 0; i < 10_000; i += 1) {
      pauses.fail({ ...step, scope: `uid ${String(i)}` }, { code: "A", shown: "" });
    }
    expect(pauses.findHeld(step)).toBeUndefined();
    expect(pauses.findHeld({ ...step, scope: "uid 9999" })).toBeDefined();
  });
});
