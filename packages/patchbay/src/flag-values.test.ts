// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { parseDuration, parsePort } from "./flag-values.ts";

describe("a duration", () => {
  test.each([
    { text: "120s", want: 120_000 },
    { text: "2m", want: 120_000 },
    { text: "1m30s", want: 90_000 },
    { text: "250ms", want: 250 },
    { text: "1h", want: 3_600_000 },
  ])("$text is $want milliseconds", ({ text, want }) => {
    expect(parseDuration(text)).toBe(want);
  });

  test.each(["", "5", "s", "5 s", "-5s", "5sx", "1d"])("%j is none", (text) => {
    expect(() => parseDuration(text)).toThrow("It is a duration");
  });
});

describe("a port", () => {
  test("is a number of 16 bits", () => {
    expect(parsePort("0")).toBe(0);
    expect(parsePort("65535")).toBe(65_535);
  });

  test.each(["65536", "-1", "http", "", "1.5"])("%j is none", (text) => {
    expect(() => parsePort(text)).toThrow("It is a number");
  });
});
