// SPDX-License-Identifier: Apache-2.0
// What every DeviceNodes must do; run on the fake and on a machine.

import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { DeviceCopy, DeviceNodes } from "@patchbay/core/interfaces";

/** A character device as a test makes and sees it. */
export interface NodeFacts {
  readonly major: number;
  readonly minor: number;
  readonly uid: number;
  readonly gid: number;
  readonly mode: number;
}

/** A machine with an empty directory, which is gone after `close`. */
export interface DeviceNodesBench {
  readonly nodes: DeviceNodes;
  /** Absolute. */
  readonly directory: string;
  /** Puts a device there, in the place of what was. */
  put(path: string, facts: NodeFacts): void;
  take(path: string): void;
  find(path: string): NodeFacts | undefined;
  close(): Promise<void>;
}

const ROOTS = { uid: 0, gid: 0, mode: 0o660 };
const OURS = { uid: 107, gid: 108, mode: 0o600 };
/** Of /dev/null and /dev/net/tun. Source: Linux devices.txt */
const NULL = { major: 1, minor: 3 };
const TUN = { major: 10, minor: 200 };
/** More than fits in a byte each. */
const LARGE = { major: 511, minor: 70_000 };

/** Tests of the name `DeviceNodes: NAME`; each makes a bench of its own. */
export function describeDeviceNodesContract(
  name: string,
  make: () => Promise<DeviceNodesBench>,
): void {
  describe(`DeviceNodes: ${name}`, () => {
    let bench: DeviceNodesBench;
    let copy: DeviceCopy;
    beforeEach(async () => {
      bench = await make();
      const { directory } = bench;
      copy = { source: `${directory}/source`, path: `${directory}/of/ours/copy`, ...OURS };
    });
    afterEach(async () => {
      await bench.close();
    });

    test.each([NULL, TUN, LARGE])("a copy of %j is the same device, and ours", async (numbers) => {
      bench.put(copy.source, { ...numbers, ...ROOTS });
      expect(await bench.nodes.ensureCopy(copy)).toBe("made");
      expect(bench.find(copy.path)).toEqual({ ...numbers, ...OURS });
      expect(bench.find(copy.source)).toEqual({ ...numbers, ...ROOTS });
    });

    test("it stays as it is while nothing is another", async () => {
      bench.put(copy.source, { ...NULL, ...ROOTS });
      await bench.nodes.ensureCopy(copy);
      expect(await bench.nodes.ensureCopy(copy)).toBe("unchanged");
      bench.put(copy.source, { ...NULL, ...ROOTS, mode: 0o666 });
      expect(await bench.nodes.ensureCopy(copy)).toBe("unchanged");
    });

    test("it becomes another when the source does, or when it was taken away", async () => {
      bench.put(copy.source, { ...NULL, ...ROOTS });
      await bench.nodes.ensureCopy(copy);
      bench.put(copy.source, { ...TUN, ...ROOTS });
      expect(await bench.nodes.ensureCopy(copy)).toBe("made");
      expect(bench.find(copy.path)).toEqual({ ...TUN, ...OURS });
      bench.take(copy.path);
      expect(await bench.nodes.ensureCopy(copy)).toBe("made");
      expect(bench.find(copy.path)).toEqual({ ...TUN, ...OURS });
    });

    test.each([{ uid: 0 }, { gid: 0 }, { mode: 0o666 }, { major: 10 }, { minor: 200 }])(
      "it is made anew where it has %j",
      async (wrong) => {
        bench.put(copy.source, { ...NULL, ...ROOTS });
        await bench.nodes.ensureCopy(copy);
        bench.put(copy.path, { ...NULL, ...OURS, ...wrong });
        expect(await bench.nodes.ensureCopy(copy)).toBe("made");
        expect(bench.find(copy.path)).toEqual({ ...NULL, ...OURS });
      },
    );

    test("it goes with its source, and where there was none nothing comes", async () => {
      expect(await bench.nodes.ensureCopy(copy)).toBe("removed");
      bench.put(copy.source, { ...NULL, ...ROOTS });
      await bench.nodes.ensureCopy(copy);
      bench.take(copy.source);
      for (let round = 0; round < 2; round += 1) {
        expect(await bench.nodes.ensureCopy(copy)).toBe("removed");
        expect(bench.find(copy.path)).toBeUndefined();
      }
    });
  });
}
