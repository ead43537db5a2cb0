// SPDX-License-Identifier: Apache-2.0
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createProcessRunner } from "./process-runner.ts";

/** Blocks this process, including its timers and I/O. */
function block(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

test("output that arrives while this process is busy belongs to the result", async () => {
  const directory = mkdtempSync(join(tmpdir(), "patchbay-runner-"));
  try {
    const file = join(directory, "pid");
    const script = `(sleep 0.5; echo late) & echo $$ > ${file}; echo early`;
    const running = createProcessRunner().run({ argv: ["sh", "-c", script], timeoutMs: 60_000 });
    // The program has ended and has been reaped, so only the child's output is awaited.
    const hasEnded = (): boolean =>
      existsSync(file) && !existsSync(`/proc/${readFileSync(file, "utf8").trim() || "self"}`);
    await expect.poll(hasEnded, { interval: 10 }).toBe(true);
    // Behind I/O, so that expired timers come next.
    await new Promise(setImmediate);
    block(2_000);
    expect(await running).toEqual({ exitCode: 0, stdout: "early\nlate\n", stderr: "" });
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
});
