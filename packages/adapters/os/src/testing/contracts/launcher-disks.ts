// SPDX-License-Identifier: Apache-2.0
// Contract of LauncherDisks, for the fake and for a machine.
import type { LauncherDisks } from "@patchbay/core/interfaces";
import { afterEach, beforeEach, describe, expect, test } from "vitest";

/** A node with a launcher of pod `pod-uid`. */
export interface LauncherDisksBench {
  readonly disks: LauncherDisks;
  /** Returns the text of the pod's file; undefined if it does not exist. */
  read(podUid: string, file: string): string | undefined;
  close(): void;
}

const POD = "pod-uid";

function toBytes(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

/** Defines tests named `LauncherDisks: NAME`; each creates its own bench. */
export function describeLauncherDisksContract(name: string, make: () => LauncherDisksBench): void {
  describe(`LauncherDisks: ${name}`, () => {
    let bench: LauncherDisksBench;
    beforeEach(() => {
      bench = make();
    });
    afterEach(() => {
      bench.close();
    });

    test("a disk has the content of the last write", () => {
      for (const text of ["one, which is longer", "two"]) {
        bench.disks.replace(POD, "init.iso", toBytes(text));
        expect(bench.read(POD, "init.iso")).toBe(text);
      }
    });

    test.each(["../init.iso", "deep/init.iso", "..", ""])(
      "rejects %j as the name of a disk",
      (file) => {
        expect(() => {
          bench.disks.replace(POD, file, toBytes("one"));
        }).toThrow(expect.objectContaining({ code: "OS_PATH_REFUSED" }) as Error);
      },
    );
  });
}
