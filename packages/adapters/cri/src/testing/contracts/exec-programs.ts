// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import type { ExecPrograms } from "@patchbay/core/interfaces";

export interface ExecProgramsBench {
  readonly programs: ExecPrograms;
  readonly containerId: string;
  /** Starts a program in the container that does not end by itself; resolves when it runs. */
  readonly start: () => Promise<void> | void;
}

/** Defines tests named `ExecPrograms: NAME`; each creates its own bench. */
export function describeExecProgramsContract(
  name: string,
  make: () => Promise<ExecProgramsBench> | ExecProgramsBench,
): void {
  describe(`ExecPrograms: ${name}`, () => {
    test("lists each program by an ID, without the container's own process, and kills one program", async () => {
      const { programs, containerId, start } = await make();
      expect(await programs.list(containerId)).toEqual([]);
      await start();
      await start();
      const [first = "", second] = await programs.list(containerId);
      expect(second).toBeDefined();
      await programs.kill(containerId, first);
      await expect.poll(() => programs.list(containerId)).toEqual([second]);
      await programs.kill(containerId, first);
    });

    test("a missing container lists no programs, and killing a program in it succeeds", async () => {
      const { programs } = await make();
      expect(await programs.list("nowhere")).toEqual([]);
      await programs.kill("nowhere", "none");
    });
  });
}
