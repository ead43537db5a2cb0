// SPDX-License-Identifier: Apache-2.0
// Contract of VolumeDisk, for the fake and for a machine.

import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { VolumeDisk, VolumeFile } from "@patchbay/core/interfaces";

/** A disk with an empty directory, deleted by `close`. */
export interface VolumeDiskBench {
  readonly disk: VolumeDisk;
  /** Absolute path. */
  readonly directory: string;
  /** Returns the text of a file below a published directory. */
  read(path: string): string | undefined;
  close(): Promise<void>;
}

const ACCESS = { uid: 107, gid: 108, mode: 0o2770 };

function buildFile(text: string, mode = 0o644): VolumeFile {
  return { bytes: new TextEncoder().encode(text), mode };
}

/** Defines tests named `VolumeDisk: NAME`; each creates its own bench. */
export function describeVolumeDiskContract(
  name: string,
  make: () => Promise<VolumeDiskBench>,
): void {
  describe(`VolumeDisk: ${name}`, () => {
    let bench: VolumeDiskBench;
    let disk: VolumeDisk;
    let directory: string;
    beforeEach(async () => {
      bench = await make();
      ({ disk, directory } = bench);
    });
    afterEach(async () => {
      await bench.close();
    });

    test("mounts memory and a file once each, and unmounts everything below a directory", async () => {
      const [memory, image] = [`${directory}/memory`, `${directory}/disk`];
      for (let round = 0; round < 2; round += 1) {
        await disk.mountMemory(memory, { access: ACCESS, sizeBytes: 2 ** 20 });
        const file = { image: `${directory}/disk.ext4`, sizeBytes: 2 ** 22 };
        await disk.mountImage(image, { access: ACCESS, ...file });
      }
      expect(await disk.listMounts(memory)).toEqual([memory]);
      expect(await disk.listMounts(directory)).toEqual([memory, image]);
      await disk.unmountAll(directory);
      await disk.unmountAll(directory);
      expect(await disk.listMounts(directory)).toEqual([]);
    });

    test("rejects a file that is mounted elsewhere, which stays mounted", async () => {
      const [there, here] = [`${directory}/there`, `${directory}/here`];
      const options = { access: ACCESS, image: `${directory}/disk.ext4`, sizeBytes: 2 ** 22 };
      await disk.mountImage(there, options);
      const again = disk.mountImage(here, options);
      await expect(again).rejects.toMatchObject({ code: "OS_FILE_IN_USE" });
      expect(await disk.listMounts(directory)).toEqual([there]);
    });

    test("mounts a directory of the machine at another path once", async () => {
      const [source, shown] = [`${directory}/source`, `${directory}/shown`];
      await disk.makeDirectory(source, ACCESS);
      for (let round = 0; round < 2; round += 1) await disk.mountDirectory(shown, source);
      expect(await disk.listMounts(directory)).toEqual([shown]);
      const missing = disk.mountDirectory(`${directory}/other`, `${directory}/none`);
      await expect(missing).rejects.toMatchObject({ code: "OS_FILE_FAILED" });
    });

    test("concurrent requests mount once", async () => {
      const memory = `${directory}/memory`;
      const turns = [1, 2, 3].map(() => disk.mountMemory(memory, { access: ACCESS }));
      await Promise.all(turns);
      expect(await disk.listMounts(directory)).toEqual([memory]);
      await disk.unmountAll(directory);
    });

    test("published files replace the previous ones; identical files change nothing", async () => {
      const volume = `${directory}/volume`;
      await disk.makeDirectory(volume, ACCESS);
      const first = new Map([
        ["a", buildFile("1")],
        ["deep/b", buildFile("2")],
      ]);
      expect(await disk.publish(volume, first)).toBe(true);
      expect(await disk.publish(volume, first)).toBe(false);
      expect(bench.read(`${volume}/a`)).toBe("1");
      expect(bench.read(`${volume}/deep/b`)).toBe("2");
      expect(await disk.publish(volume, new Map([["a", buildFile("one")]]))).toBe(true);
      expect(bench.read(`${volume}/a`)).toBe("one");
      expect(bench.read(`${volume}/deep/b`)).toBeUndefined();
      expect(await disk.publish(volume, new Map([["a", buildFile("one", 0o400)]]))).toBe(true);
    });

    test("reports disk usage by path, without missing paths", async () => {
      const volume = `${directory}/volume`;
      await disk.makeDirectory(volume, ACCESS);
      const used = await disk.usedBytes([volume, `${directory}/none`]);
      expect([...used.keys()]).toEqual([volume]);
      expect(await disk.usedBytes([])).toEqual(new Map());
    });

    test("reports the kind of an existing path", async () => {
      await disk.makeDirectory(`${directory}/volume`, ACCESS);
      expect(await disk.readKind(`${directory}/volume`)).toBe("Directory");
      expect(await disk.readKind(`${directory}/none`)).toBeUndefined();
    });
  });
}
