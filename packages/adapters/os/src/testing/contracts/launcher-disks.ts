// SPDX-License-Identifier: Apache-2.0
// What every LauncherDisks must do; run on the fake and on a machine.
import type { LauncherDisks } from "@patchbay/core/interfaces";
import { afterEach, beforeEach, describe, expect, test } from "vitest";

/** A node with a launcher of pod `pod-uid`, gone after `close`. */
export interface LauncherDisksBench {
  readonly disks: LauncherDisks;
  /** What is in the pod's file; undefined: there is none. */
  read(podUid: string, file: string): string | undefined;
  close(): void;
}

const POD = "pod-uid";

function toBytes(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

/** Tests of the name `LauncherDisks: NAME`; each makes a bench of its own. */
export function describeLauncherDisksContract(name: string, make: () => LauncherDisksBench): void {
  describe(`LauncherDisks: ${name}`, () => {
    let bench: LauncherDisksBench;
    beforeEach(() => {
      bench = make();
    });
    afterEach(() => {
      bench.close();
    });

    test("a disk is what was given last", () => {
      for (const text of ["one, which is longer", "two"]) {
        bench.disks.replace(POD, "init.iso", toBytes(text));
        expect(bench.read(POD, "init.iso")).toBe(text);
      }
    });

    test.each(["../init.iso", "deep/init.iso", "..", ""])("%j is no name of a disk", (file) => {
      expect(() => {
        bench.disks.replace(POD, file, toBytes("one"));
      }).toThrow(expect.objectContaining({ code: "OS_PATH_REFUSED" }) as Error);
    });
  });
}
