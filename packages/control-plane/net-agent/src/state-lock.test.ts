// SPDX-License-Identifier: Apache-2.0
// Two agents with one directory. The kernel distinguishes two descriptors of the same process.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createFiles } from "@patchbay/os";
import { createSilentLogger } from "@patchbay/telemetry";
import { afterEach, beforeEach, expect, test } from "vitest";
import { lockState } from "./state-lock.ts";

let directory: string;
const told: string[] = [];

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "hold-state-"));
  told.length = 0;
});

afterEach(() => rm(directory, { recursive: true }));

/** `sleep` runs while the second agent waits. */
function hold(signal: AbortSignal, sleep: () => void = () => undefined) {
  const log = { ...createSilentLogger(), warn: (message: string) => told.push(message) };
  const clock = {
    now: () => 0,
    monotonicMs: () => 0,
    sleep: () => Promise.resolve().then(sleep),
  };
  return lockState(join(directory, "state"), { files: createFiles(), clock, log }, signal);
}

test("the second agent logs once and starts when the first has ended", async () => {
  const { signal } = new AbortController();
  const first = await hold(signal);
  expect(told).toEqual([]);
  let waits = 0;
  const second = await hold(signal, () => {
    waits += 1;
    if (waits === 3) first?.release();
  });
  expect(waits).toBe(3);
  expect(told).toEqual(["another net-agent works on this node; waiting until it ends"]);
  second?.release();
});

test("a waiting agent stops when it is aborted", async () => {
  const stop = new AbortController();
  const first = await hold(stop.signal);
  const second = await hold(stop.signal, () => {
    stop.abort();
  });
  expect(second).toBeUndefined();
  first?.release();
});

test("an agent refuses the state of a newer version", async () => {
  const state = join(directory, "state");
  const files = createFiles();
  await files.ensureDirectory(state);
  await files.writeAtomic(join(state, "format.json"), '{"format":2}\n');
  await expect(hold(new AbortController().signal)).rejects.toMatchObject({
    code: "FORMAT_TOO_NEW",
    details: { path: state, found: "2", supported: 1 },
  });
});
