// SPDX-License-Identifier: Apache-2.0
// Contract of ProcessRunner, for the fake and for a machine.

import { beforeEach, describe, expect, test } from "vitest";
import type { Command, ProcessRunner } from "@patchbay/core/interfaces";

/** A machine with three programs. */
export interface ProcessRunnerBench {
  readonly runner: ProcessRunner;
  /** Writes `out` to stdout and `err` to stderr, each with a newline, and exits with 3. */
  readonly speaker: Command["argv"];
  /** Copies stdin to stdout. */
  readonly echo: Command["argv"];
  /** Does not end by itself. */
  readonly sleeper: Command["argv"];
  /** Resolves when at least this much time has passed. */
  pass(ms: number): Promise<void>;
}

/** Timeout that is long enough for programs that end by themselves. */
const timeoutMs = 30_000;

/** Defines tests named `ProcessRunner: NAME`; each creates its own bench. */
export function describeProcessRunnerContract(name: string, make: () => ProcessRunnerBench): void {
  describe(`ProcessRunner: ${name}`, () => {
    let bench: ProcessRunnerBench;
    let runner: ProcessRunner;
    beforeEach(() => {
      bench = make();
      ({ runner } = bench);
    });

    test("returns a program's output with any exit code", async () => {
      expect(await runner.run({ argv: bench.speaker, timeoutMs })).toEqual({
        exitCode: 3,
        stdout: "out\n",
        stderr: "err\n",
      });
    });

    test("a program reads its input, which is empty by default", async () => {
      const outcome = await runner.run({ argv: bench.echo, stdin: "words", timeoutMs });
      expect(outcome).toEqual({ exitCode: 0, stdout: "words", stderr: "" });
      expect((await runner.run({ argv: bench.echo, timeoutMs })).stdout).toBe("");
    });

    test("streams text output as it is written, without retaining it", async () => {
      let followed = "";
      const onOutput = (text: string): void => {
        followed += text;
      };
      const result = await runner.run({ argv: bench.speaker, timeoutMs, onOutput });
      expect(followed).toBe("out\n");
      expect(result).toEqual({ exitCode: 3, stdout: "", stderr: "err\n" });
    });

    test("streams binary output, each chunk after the previous one was processed", async () => {
      const followed: Uint8Array[] = [];
      let isTaking = false;
      const onBytes = async (bytes: Uint8Array): Promise<void> => {
        expect(isTaking).toBe(false);
        isTaking = true;
        await Promise.resolve();
        followed.push(bytes);
        isTaking = false;
      };
      const result = await runner.run({ argv: bench.speaker, timeoutMs, onBytes });
      expect(Buffer.concat(followed).toString()).toBe("out\n");
      expect(result).toEqual({ exitCode: 3, stdout: "", stderr: "err\n" });
    });

    test("reports a missing program", async () => {
      const run = runner.run({ argv: ["no-such-program-here"], timeoutMs });
      await expect(run).rejects.toMatchObject({
        code: "OS_PROGRAM_MISSING",
        details: { program: "no-such-program-here" },
      });
    });

    test("a program that runs past its deadline times out", async () => {
      const run = runner.run({ argv: bench.sleeper, timeoutMs: 100 });
      const refused = expect(run).rejects.toMatchObject({
        code: "OS_TIMED_OUT",
        details: { program: bench.sleeper[0], timeoutMs: 100 },
      });
      await bench.pass(100);
      await refused;
    });

    test("an abort rejects with its reason, also before the start", async () => {
      const abort = new AbortController();
      const { signal } = abort;
      const run = runner.run({ argv: bench.sleeper, timeoutMs, signal });
      const reason = new Error("stop");
      const refused = expect(run).rejects.toBe(reason);
      abort.abort(reason);
      await refused;
      await expect(runner.run({ argv: bench.speaker, timeoutMs, signal })).rejects.toBe(reason);
    });

    test("ends a family without running processes", async () => {
      await runner.run({ argv: bench.speaker, timeoutMs, processFamily: "contract" });
      await expect(runner.killProcessFamily("contract")).resolves.toBeUndefined();
    });
  });
}
