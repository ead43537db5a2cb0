// SPDX-License-Identifier: Apache-2.0
// How long did each file of tests take, hooks and all? A reporter of vitest, which writes that beside the other reports.
import { writeFileSync } from "node:fs";
import { relative } from "node:path";
import type { Reporter, TestModule } from "vitest/node";

/** One file of tests. */
export interface FileTime {
  /** Below the project's root. */
  readonly file: string;
  readonly seconds: number;
}

/** Where it is written: the environment variable PATCHBAY_FILE_TIMES names the file. */
export const FILE_TIMES = "PATCHBAY_FILE_TIMES";

/** Writes a list of {@link FileTime} as JSON at the end of the run. */
export default class FileTimesReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const times = modules.map((module): FileTime => {
      const { duration, collectDuration } = module.diagnostic();
      const file = relative(process.cwd(), module.moduleId);
      return { file, seconds: (duration + collectDuration) / 1000 };
    });
    writeFileSync(process.env[FILE_TIMES] ?? "/dev/null", JSON.stringify(times));
  }
}
