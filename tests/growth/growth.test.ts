// SPDX-License-Identifier: Apache-2.0
// No admission rule, parser or planner may take more than n log n steps for an input of size n.
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { describe, expect, test } from "vitest";

interface Measured {
  readonly name: string;
  /** Sizes N, 2N and 4N, of which 4N is the limit. */
  readonly sizes: readonly number[];
  readonly steps: readonly number[];
}

/** Optimized code does not count the calls of functions. */
const ENGINE_FLAGS = ["--conditions=@patchbay/source", "--no-opt", "--no-maglev"];

function measureAll(): readonly Measured[] {
  const program = join(import.meta.dirname, "measure.ts");
  const output = execFileSync(process.execPath, [...ENGINE_FLAGS, program], {
    encoding: "utf8",
    maxBuffer: 2 ** 24,
    // Cached code does not count its blocks.
    env: { ...process.env, NODE_DISABLE_COMPILE_CACHE: "1" },
  });
  return output
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as Measured);
}

/** Tolerance for caches and tables that grow at some sizes. */
const TOLERANCE = 1.15;
/** Steps by which a call may grow in any case. A quadratic call exceeds them at the limits. */
const NEGLIGIBLE_STEPS = 200;

/** Returns how much more the second doubling costs than the first. Differences exclude the costs that do not depend on the size. */
function growthOf([first = 0, second = 0, third = 0]: readonly number[], negligible = 0): number {
  return (third - second) / Math.max(negligible, second - first);
}

function isAboveNLogN({ sizes, steps }: Measured): boolean {
  const bound = growthOf(sizes.map((size) => size * Math.log2(size)));
  return growthOf(steps, NEGLIGIBLE_STEPS) > bound * TOLERANCE;
}

/** Separates the controls, which are quadratic, from the subjects. */
function partition(all: readonly Measured[]): readonly [readonly Measured[], readonly Measured[]] {
  const isControl = ({ name }: Measured): boolean => name.startsWith("control");
  return [all.filter(isControl), all.filter((each) => !isControl(each))];
}

test("the bound separates n log n from a square", () => {
  const sizes = [64, 128, 256];
  const bound = (stepsOf: (size: number) => number): boolean =>
    isAboveNLogN({ name: "", sizes, steps: sizes.map(stepsOf) });
  expect(bound((size) => 20 * size * Math.log2(size) + 1000)).toBe(false);
  expect(bound((size) => 20 * size + size * size)).toBe(true);
});

const [controls, measured] = partition(measureAll());
console.log(
  measured
    .map(({ name, sizes, steps }) => `${name}: ${sizes.join(", ")} → ${steps.join(", ")}`)
    .join("\n"),
);

test("the counts show quadratic blocks of code and quadratic built-in functions", () => {
  expect(controls.map((control) => isAboveNLogN(control))).toEqual([true, true]);
});

describe("takes at most n log n steps:", () => {
  test.each(measured)("$name", (subject) => {
    expect({ ...subject, isAboveNLogN: isAboveNLogN(subject) }).toMatchObject({
      isAboveNLogN: false,
    });
  });
});
