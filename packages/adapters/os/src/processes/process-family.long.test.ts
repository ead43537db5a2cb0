// SPDX-License-Identifier: Apache-2.0
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createProcessRunner } from "./process-runner.ts";

let directory: string;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "patchbay-family-"));
});

afterEach(() => {
  rmSync(directory, { recursive: true, force: true });
});

function readState(pid: string): string {
  try {
    return /\) (\w) /.exec(readFileSync(`/proc/${pid}/stat`, "utf8"))?.[1] ?? "";
  } catch {
    return "ended";
  }
}

// The kernel frees this process's memory for long, after its environment and before the end of the process.
test("a child with much memory has ended before the result", async () => {
  const file = join(directory, "pid");
  const full = join(directory, "full");
  const child = `(head -c 400M /dev/zero; : > ${full}; exec sleep 600) | (sh -c 'echo $PPID' > ${file}; exec tail -c 400M)`;
  const script = `setsid sh -c "${child.replaceAll("$", String.raw`\$`)}" > /dev/null 2>&1 & while [ ! -e ${full} ]; do sleep 0.01; done; kill -KILL $$`;
  const argv = ["sh", "-c", script] as const;
  const command = { argv, processFamily: directory, timeoutMs: 60_000 };
  expect(await createProcessRunner().run(command)).toMatchObject({ exitCode: 137 });
  expect(readState(readFileSync(file, "utf8").trim())).toMatch(/^(ended|[XZ])$/);
});
