// SPDX-License-Identifier: Apache-2.0
// Contract of ClaimDisk, for the fake and for a machine's disk.
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { ClaimDisk } from "@patchbay/core/interfaces";

/** Disk with an empty directory, which `close` removes. */
export interface ClaimDiskBench {
  readonly disk: ClaimDisk;
  /** Absolute path. */
  readonly directory: string;
  isMounted(directory: string): boolean;
  close(): Promise<void>;
}

const MEBIBYTE = 2 ** 20;

/** Defines the contract's tests. Each test makes a new bench. */
export function describeClaimDiskContract(name: string, make: () => Promise<ClaimDiskBench>): void {
  describe(`ClaimDisk: ${name}`, () => {
    let bench: ClaimDiskBench;
    beforeEach(async () => {
      bench = await make();
    });
    afterEach(async () => {
      await bench.close();
    });

    test("mounts a file system once, and unmounts it on release", async () => {
      const { disk } = bench;
      const [file, directory] = [`${bench.directory}/volume.img`, `${bench.directory}/mount`];
      for (let round = 0; round < 2; round += 1) {
        await disk.make(file, { kind: "files", sizeBytes: MEBIBYTE });
        await disk.mount(file, { directory, group: 107 });
      }
      expect(bench.isMounted(directory)).toBe(true);
      await disk.release(file, directory);
      await disk.release(file, directory);
      expect(bench.isMounted(directory)).toBe(false);
    });

    test("a device stays the same until it is released", async () => {
      const { disk } = bench;
      const [one, other] = [`${bench.directory}/one.img`, `${bench.directory}/other.img`];
      for (const file of [one, other]) {
        await disk.make(file, { kind: "device", sizeBytes: MEBIBYTE });
      }
      const device = await disk.attach(one);
      expect(await disk.attach(one)).toBe(device);
      expect(await disk.attach(other)).not.toBe(device);
      await disk.release(one, `${bench.directory}/none`);
      await disk.release(other, `${bench.directory}/none`);
    });

    test("using a missing file fails and does not create it", async () => {
      const { disk } = bench;
      const file = `${bench.directory}/gone.img`;
      const error = { code: "OS_FILE_FAILED" };
      const directory = `${bench.directory}/mount`;
      await expect(disk.mount(file, { directory })).rejects.toMatchObject(error);
      await expect(disk.attach(file)).rejects.toMatchObject(error);
    });
  });
}
