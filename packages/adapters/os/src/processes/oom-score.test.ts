// SPDX-License-Identifier: Apache-2.0
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { expect, test } from "vitest";

/** In a process of its own: a score that was raised does not come down again everywhere. */
function runs(score: number): string {
  const module = join(import.meta.dirname, "oom-score.ts");
  const script = `
    const { setOomScore } = await import(${JSON.stringify(module)});
    const { execFileSync } = await import("node:child_process");
    const could = await setOomScore(${String(score)});
    console.log(could, execFileSync("cat", ["/proc/self/oom_score_adj"], { encoding: "utf8" }).trim());
  `;
  const argv = ["--conditions=@patchbay/source", "--input-type=module", "--eval", script];
  return spawnSync(process.execPath, argv, { encoding: "utf8" }).stdout.trim();
}

test("a score is inherited by what the process starts", () => {
  expect(runs(500)).toBe("true 500");
});

test("a score that the kernel refuses changes nothing", () => {
  // Where root may, it is set.
  expect(["true -999", "false 0"]).toContain(runs(-999));
});
