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

    test("what a program has written is told with its exit code, whatever that is", async () => {
      expect(await runner.run({ argv: bench.speaker, timeoutMs })).toEqual({
        exitCode: 3,
        stdout: "out\n",
        stderr: "err\n",
      });
    });

    test("a program reads what it is given, and nothing where it is given nothing", async () => {
      const outcome = await runner.run({ argv: bench.echo, stdin: "words", timeoutMs });
      expect(outcome).toEqual({ exitCode: 0, stdout: "words", stderr: "" });
      expect((await runner.run({ argv: bench.echo, timeoutMs })).stdout).toBe("");
    });

    test("output that is followed comes as it is written, and is not kept", async () => {
      let followed = "";
      const onOutput = (text: string): void => {
        followed += text;
      };
      const result = await runner.run({ argv: bench.speaker, timeoutMs, onOutput });
      expect(followed).toBe("out\n");
      expect(result).toEqual({ exitCode: 3, stdout: "", stderr: "err\n" });
    });

    test("so does output that is no text, each piece when the one before was taken", async () => {
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

    test("a program that is not there is missing", async () => {
      const run = runner.run({ argv: ["no-such-program-here"], timeoutMs });
      await expect(run).rejects.toMatchObject({
        code: "OS_PROGRAM_MISSING",
        details: { program: "no-such-program-here" },
      });
    });

    test("a program that goes on at its deadline has timed out", async () => {
      const run = runner.run({ argv: bench.sleeper, timeoutMs: 100 });
      const refused = expect(run).rejects.toMatchObject({
        code: "OS_TIMED_OUT",
        details: { program: bench.sleeper[0], timeoutMs: 100 },
      });
      await bench.pass(100);
      await refused;
    });

    test("who aborts is answered with the reason, also before the start", async () => {
      const abort = new AbortController();
      const { signal } = abort;
      const run = runner.run({ argv: bench.sleeper, timeoutMs, signal });
      const reason = new Error("stop");
      const refused = expect(run).rejects.toBe(reason);
      abort.abort(reason);
      await refused;
      await expect(runner.run({ argv: bench.speaker, timeoutMs, signal })).rejects.toBe(reason);
    });

    test("a family that has left nothing running is ended", async () => {
      await runner.run({ argv: bench.speaker, timeoutMs, family: "contract" });
      await expect(runner.killFamily("contract")).resolves.toBeUndefined();
    });
  });
}
