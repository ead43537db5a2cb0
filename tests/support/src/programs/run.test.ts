// SPDX-License-Identifier: Apache-2.0
// Input, result and errors of programs run by the small process.
import { expect, test } from "vitest";
import { run } from "./run.ts";

test.each(["", "two words", "it's", '"$HOME" `id` \\', "a\nb", "*", "ü"])(
  "passes an argument of %j",
  (word) => {
    expect(run("printf", "%s", word)).toBe(word);
  },
);

test("provides no input", () => {
  expect(run("cat")).toBe("");
});

test("separates the outputs of consecutive programs", () => {
  run("printf", "long words");
  expect(run("printf", "x")).toBe("x");
  expect(run("true")).toBe("");
});

test("reports a failure with the command, the exit code and its output", () => {
  expect(() => run("sh", "-c", "echo no >&2; exit 3")).toThrow(
    /^Command failed: sh -c echo no >&2; exit 3: exit code 3: no\n$/,
  );
  expect(() => run("no-such-program")).toThrow(/^No such program: no-such-program: /);
});
