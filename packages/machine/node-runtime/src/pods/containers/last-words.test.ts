// SPDX-License-Identifier: Apache-2.0
// What is told of a container that failed?
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import type { ContainerFacts, LivePodFacts } from "../facts.ts";
import { lastWordsOf, withLastWords } from "./last-words.ts";

const TIME = "2026-11-22T09:00:00.000000000Z";

function logOf(...lines: readonly string[]): Buffer {
  return Buffer.from(lines.map((line) => `${TIME} ${line}\n`).join(""));
}

describe("the last words of a log", () => {
  test("are its lines, whichever stream they went to, with the parts of long ones joined", () => {
    const log = logOf("stderr F first", "stdout P sec", "stdout F ond ü", "stderr F ");
    expect(lastWordsOf(log)).toBe("first\nsecond ü");
  });

  test("leave out a line whose beginning is not there", () => {
    const log = logOf("stderr F first words", "stderr F second");
    expect(lastWordsOf(log.subarray(log.indexOf("words")))).toBe("second");
  });

  test("are at most 80 lines and 2048 bytes", () => {
    const many = Array.from({ length: 100 }, (_, index) => `stderr F ${String(index)}`);
    const lines = lastWordsOf(logOf(...many)).split("\n");
    expect([lines.length, lines[0]]).toEqual([80, "20"]);
    expect(lastWordsOf(logOf(`stderr F ${"x".repeat(3000)}`))).toHaveLength(2048);
  });

  test("are none of an empty log", () => {
    expect(lastWordsOf(Buffer.alloc(0))).toBe("");
  });
});

describe("a container that has ended", () => {
  const directory = mkdtempSync(join(tmpdir(), "last-words-"));
  const logPath = join(directory, "0.log");
  afterAll(() => {
    rmSync(directory, { recursive: true });
  });
  const told = async (
    policy: "File" | "FallbackToLogsOnError",
    change: Partial<ContainerFacts>,
  ): Promise<string | undefined> => {
    const ended = { name: "c", state: "EXITED", exitCode: 1, message: "", logPath, ...change };
    const containers = [{ name: "c", image: "i", terminationMessagePolicy: policy }];
    const facts = {
      pod: { apiVersion: "v1", kind: "Pod", metadata: { name: "p" }, spec: { containers } },
      containers: [ended],
    };
    writeFileSync(logPath, logOf("stderr F no such file"));
    // What is not looked at is left out.
    const [one] = await withLastWords(facts as unknown as LivePodFacts);
    return one?.message;
  };

  test.each([
    { name: "with an error says them", change: {}, want: "no such file" },
    { name: "well says nothing", change: { exitCode: 0 }, want: "" },
    { name: "with a message of the runtime's keeps that", change: { message: "m" }, want: "m" },
    { name: "is asked for nothing while it runs", change: { state: "RUNNING" as const }, want: "" },
    { name: "without a log says nothing", change: { logPath: "/nowhere/0.log" }, want: "" },
  ])("$name", async ({ change, want }) => {
    expect(await told("FallbackToLogsOnError", change)).toBe(want);
  });

  test("says nothing where it did not ask for that", async () => {
    expect(await told("File", {})).toBe("");
  });
});
