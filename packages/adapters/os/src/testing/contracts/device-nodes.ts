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

    test.each([NULL, TUN, LARGE])(
      "a copy of %j has the same device numbers and its own access",
      async (numbers) => {
        bench.put(copy.source, { ...numbers, ...ROOT_ACCESS });
        expect(await bench.nodes.ensureCopy(copy)).toBe("made");
        expect(bench.find(copy.path)).toEqual({ ...numbers, ...COPY_ACCESS });
        expect(bench.find(copy.source)).toEqual({ ...numbers, ...ROOT_ACCESS });
      },
    );

    test("a copy stays unchanged while source and copy are unchanged", async () => {
      bench.put(copy.source, { ...NULL, ...ROOT_ACCESS });
      await bench.nodes.ensureCopy(copy);
      expect(await bench.nodes.ensureCopy(copy)).toBe("unchanged");
      bench.put(copy.source, { ...NULL, ...ROOT_ACCESS, mode: 0o666 });
      expect(await bench.nodes.ensureCopy(copy)).toBe("unchanged");
    });

    test("a copy is replaced when its source changes or the copy was removed", async () => {
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
      "a copy is replaced when it has %j",
      async (wrong) => {
        bench.put(copy.source, { ...NULL, ...ROOT_ACCESS });
        await bench.nodes.ensureCopy(copy);
        bench.put(copy.path, { ...NULL, ...COPY_ACCESS, ...wrong });
        expect(await bench.nodes.ensureCopy(copy)).toBe("made");
        expect(bench.find(copy.path)).toEqual({ ...NULL, ...COPY_ACCESS });
      },
    );

    test("a copy is removed with its source; without a source none is created", async () => {
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
