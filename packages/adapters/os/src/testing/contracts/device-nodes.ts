// SPDX-License-Identifier: Apache-2.0
// Contract of DeviceNodes, for the fake and for a machine.

import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { DeviceCopy, DeviceNodes } from "@patchbay/core/interfaces";

export interface NodeFacts {
  readonly major: number;
  readonly minor: number;
  readonly uid: number;
  readonly gid: number;
  readonly mode: number;
}

/** A machine with an empty directory, deleted by `close`. */
export interface DeviceNodesBench {
  readonly nodes: DeviceNodes;
  /** Absolute path. */
  readonly directory: string;
  /** Creates a device, replacing an existing one. */
  put(path: string, facts: NodeFacts): void;
  take(path: string): void;
  find(path: string): NodeFacts | undefined;
  close(): Promise<void>;
}

const ROOT_ACCESS = { uid: 0, gid: 0, mode: 0o660 };
const COPY_ACCESS = { uid: 107, gid: 108, mode: 0o600 };
/** Numbers of /dev/null and /dev/net/tun. Source: Linux devices.txt. */
const NULL = { major: 1, minor: 3 };
const TUN = { major: 10, minor: 200 };
/** Numbers that do not fit in a byte each. */
const LARGE = { major: 511, minor: 70_000 };

/** Defines tests named `DeviceNodes: NAME`; each creates its own bench. */
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
      copy = { source: `${directory}/source`, path: `${directory}/of/ours/copy`, ...COPY_ACCESS };
    });
    afterEach(async () => {
      await bench.close();
    });

    test.each([NULL, TUN, LARGE])("a copy of %j is the same device, and ours", async (numbers) => {
      bench.put(copy.source, { ...numbers, ...ROOT_ACCESS });
      expect(await bench.nodes.ensureCopy(copy)).toBe("made");
      expect(bench.find(copy.path)).toEqual({ ...numbers, ...COPY_ACCESS });
      expect(bench.find(copy.source)).toEqual({ ...numbers, ...ROOT_ACCESS });
    });

    test("it stays as it is while nothing is another", async () => {
      bench.put(copy.source, { ...NULL, ...ROOT_ACCESS });
      await bench.nodes.ensureCopy(copy);
      expect(await bench.nodes.ensureCopy(copy)).toBe("unchanged");
      bench.put(copy.source, { ...NULL, ...ROOT_ACCESS, mode: 0o666 });
      expect(await bench.nodes.ensureCopy(copy)).toBe("unchanged");
    });

    test("it becomes another when the source does, or when it was taken away", async () => {
      bench.put(copy.source, { ...NULL, ...ROOT_ACCESS });
      await bench.nodes.ensureCopy(copy);
      bench.put(copy.source, { ...TUN, ...ROOT_ACCESS });
      expect(await bench.nodes.ensureCopy(copy)).toBe("made");
      expect(bench.find(copy.path)).toEqual({ ...TUN, ...COPY_ACCESS });
      bench.take(copy.path);
      expect(await bench.nodes.ensureCopy(copy)).toBe("made");
      expect(bench.find(copy.path)).toEqual({ ...TUN, ...COPY_ACCESS });
    });

    test.each([{ uid: 0 }, { gid: 0 }, { mode: 0o666 }, { major: 10 }, { minor: 200 }])(
      "it is made anew where it has %j",
      async (wrong) => {
        bench.put(copy.source, { ...NULL, ...ROOT_ACCESS });
        await bench.nodes.ensureCopy(copy);
        bench.put(copy.path, { ...NULL, ...COPY_ACCESS, ...wrong });
        expect(await bench.nodes.ensureCopy(copy)).toBe("made");
        expect(bench.find(copy.path)).toEqual({ ...NULL, ...COPY_ACCESS });
      },
    );

    test("it goes with its source, and where there was none nothing comes", async () => {
      expect(await bench.nodes.ensureCopy(copy)).toBe("removed");
      bench.put(copy.source, { ...NULL, ...ROOT_ACCESS });
      await bench.nodes.ensureCopy(copy);
      bench.take(copy.source);
      for (let round = 0; round < 2; round += 1) {
        expect(await bench.nodes.ensureCopy(copy)).toBe("removed");
        expect(bench.find(copy.path)).toBeUndefined();
      }
    });
  });
}
