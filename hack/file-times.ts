// SPDX-License-Identifier: Apache-2.0
// Vitest reporter that writes what the JSON reporter leaves out: the time of each file, and the errors of hooks.
import { writeFileSync } from "node:fs";
import { relative } from "node:path";
import type { Reporter, TestModule } from "vitest/node";

export interface FileTime {
  /** Relative to the project's root. */
  readonly file: string;
  readonly seconds: number;
  /** The first error of a hook inside a `describe`. */
  readonly hookError?: string;
}

/** The environment variable PATCHBAY_FILE_TIMES names the output file. */
export const FILE_TIMES = "PATCHBAY_FILE_TIMES";

/** Writes a list of {@link FileTime} as JSON at the end of the run. */
export default class FileTimesReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const times = modules.map((module): FileTime => {
      const { duration, collectDuration } = module.diagnostic();
      const file = relative(process.cwd(), module.moduleId);
      const [error] = [...module.children.allSuites()].flatMap((suite) => suite.errors());
      return {
        file,
        seconds: (duration + collectDuration) / 1000,
        ...(error && { hookError: error.message }),
      };
    });
    writeFileSync(process.env[FILE_TIMES] ?? "/dev/null", JSON.stringify(times));
  }
}
