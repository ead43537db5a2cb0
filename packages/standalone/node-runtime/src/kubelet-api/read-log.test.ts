// SPDX-License-Identifier: Apache-2.0
import { existsSync, readdirSync, readlinkSync } from "node:fs";
import { appendFile, mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createFakeClock, type FakeClock } from "@patchbay/os/testing";
import { eventually } from "@patchbay/support";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { openLogReader, type LogQuery } from "./read-log.ts";

const WITHIN = { withinMs: 5000 };

let directory: string;
let path: string;
let stop: AbortController;
let clock: FakeClock;
let isRunning: boolean;
let change: () => void;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "read-log-"));
  path = join(directory, "0.log");
  stop = new AbortController();
  clock = createFakeClock();
  isRunning = true;
  change = () => undefined;
});

afterEach(async () => {
  stop.abort();
  await rm(directory, { recursive: true, force: true });
});

function lines(...texts: readonly string[]): string {
  return texts.map((text) => `2026-11-22T09:00:00Z stdout F ${text}\n`).join("");
}

function open(query: Partial<LogQuery>) {
  const log = {
    path,
    isRunning: () => Promise.resolve(isRunning),
    onChange: (changed: () => void) => {
      change = changed;
    },
  };
  const beginRead = () => Promise.resolve(() => undefined);
  const reading = { log, clock, beginRead, signal: stop.signal };
  return openLogReader({ follow: false, timestamps: false, ...query }, reading);
}

/** Reads until the end; `shown` is what has come so far. */
async function start(query: Partial<LogQuery>) {
  const chunks = await open(query);
  const reading = { shown: "", ended: Promise.resolve(), hasEnded: false };
  const read = async (): Promise<void> => {
    for await (const chunk of chunks ?? []) reading.shown += chunk.toString();
    reading.hasEnded = true;
  };
  reading.ended = read();
  return reading;
}

async function read(query: Partial<LogQuery>): Promise<string> {
  const reading = await start(query);
  await reading.ended;
  return reading.shown;
}

describe("the existing log", () => {
  test("is undefined without a file", async () => {
    expect(await open({})).toBeUndefined();
  });

  test("is closed for a client that disconnected", async () => {
    await writeFile(path, lines("a"));
    stop.abort();
    expect(await open({})).toBeUndefined();
    const links = readdirSync("/proc/self/fd").map((name) => join("/proc/self/fd", name));
    const opened = links.filter((link) => existsSync(link)).map((link) => readlinkSync(link));
    expect(opened).not.toContain(path);
  });

  test.each([
    { tailLines: undefined, want: "a\nb\nc\n" },
    { tailLines: 2, want: "b\nc\n" },
    { tailLines: 0, want: "" },
    { tailLines: 9, want: "a\nb\nc\n" },
  ])("is limited to its last $tailLines lines", async ({ tailLines, want }) => {
    await writeFile(path, lines("a", "b", "c"));
    expect(await read(tailLines === undefined ? {} : { tailLines })).toBe(want);
  });

  test.each([
    { name: "partial records count as one line", tailLines: 1, want: "def\n" },
    { name: "an incomplete record does not count", tailLines: 2, want: "abc\ndef\n" },
    { name: "invalid records do not count", tailLines: 3, want: "one\nabc\ndef\n" },
  ])("$name", async ({ tailLines, want }) => {
    const record = (tag: string, text: string) => `2026-11-22T09:00:00Z stdout ${tag} ${text}\n`;
    const abc = `${record("P", "a")}${record("P", "b")}${record("F", "c")}`;
    const def = `${record("P", "d")}${record("F:x", "ef")}`;
    const none = "what nobody writes\n\n";
    await writeFile(path, `${record("F", "one")}${abc}${none}${def}2026-11-22T09:00:00Z std`);
    expect(await read({ tailLines })).toBe(want);
  });

  test("an unfinished last line counts", async () => {
    await writeFile(path, `${lines("a", "b")}2026-11-22T09:00:00Z stdout P c\n`);
    expect(await read({ tailLines: 1 })).toBe("c");
    expect(await read({ tailLines: 2 })).toBe("b\nc");
    expect(await read({ tailLines: 0 })).toBe("");
  });

  test("has the same last lines as a whole read, wherever the parts of the file end", async () => {
    const length = fc.oneof(fc.nat(80), fc.integer({ min: 65_300, max: 65_600 }));
    await fc.assert(
      fc.asyncProperty(
        fc.array(length, { maxLength: 6 }),
        fc.nat(7),
        async (lengths, tailLines) => {
          const texts = lengths.map((count, index) => `${String(index)}${"x".repeat(count)}`);
          await writeFile(path, lines(...texts));
          const tail = tailLines === 0 ? [] : texts.slice(-tailLines);
          expect(await read({ tailLines })).toBe(tail.map((text) => `${text}\n`).join(""));
        },
      ),
      { numRuns: 40 },
    );
  });

  test("may be longer than a single read", async () => {
    const texts = Array.from({ length: 20_000 }, (_, index) => `line ${String(index)}`);
    await writeFile(path, lines(...texts));
    expect(await read({})).toBe(`${texts.join("\n")}\n`);
    expect(await read({ tailLines: 1 })).toBe("line 19999\n");
  });
});

describe("a followed log", () => {
  test("is sent as it is written, and ends with the container after its last output", async () => {
    await writeFile(path, lines("a", "b"));
    const reading = await start({ follow: true, tailLines: 1 });
    await eventually(() => reading.shown === "b\n", WITHIN);
    await appendFile(path, lines("c"));
    await eventually(() => reading.shown === "b\nc\n", WITHIN);
    await appendFile(path, lines("d"));
    isRunning = false;
    change();
    await reading.ended;
    expect(reading.shown).toBe("b\nc\nd\n");
  });

  test("continues in the new file after a rotation", async () => {
    await writeFile(path, lines("a"));
    const reading = await start({ follow: true });
    await eventually(() => reading.shown === "a\n", WITHIN);
    await rename(path, `${path}.old`);
    await appendFile(`${path}.old`, lines("b"));
    await writeFile(path, lines("c"));
    await eventually(() => clock.dueMs.length === 1, WITHIN);
    await appendFile(`${path}.old`, lines("late"));
    await clock.advance(100);
    await eventually(() => reading.shown === "a\nb\nlate\nc\n", WITHIN);
    await appendFile(path, lines("d"));
    await eventually(() => reading.shown.endsWith("d\n"), WITHIN);
    isRunning = false;
    change();
    await reading.ended;
  });

  test("ends after the requested number of bytes", async () => {
    await writeFile(path, lines("a"));
    const reading = await start({ follow: true, limitBytes: 3 });
    await appendFile(path, lines("bcd"));
    await reading.ended;
    expect(reading.shown).toBe("a\nb");
  });

  test("ends when the client disconnects", async () => {
    await writeFile(path, lines("a"));
    const reading = await start({ follow: true });
    await eventually(() => reading.shown === "a\n", WITHIN);
    stop.abort();
    await reading.ended;
  });

  test("ends at once if the container has already ended", async () => {
    await writeFile(path, lines("a"));
    isRunning = false;
    expect(await read({ follow: true })).toBe("a\n");
  });
});
