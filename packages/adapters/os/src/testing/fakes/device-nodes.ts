// SPDX-License-Identifier: Apache-2.0
// Device nodes in memory.
import type { CopyResult, DeviceCopy, DeviceNodes } from "@patchbay/core/interfaces";

export interface FakeDeviceNode {
  readonly major: number;
  readonly minor: number;
  readonly uid: number;
  readonly gid: number;
  readonly mode: number;
}

export interface FakeDeviceNodes extends DeviceNodes {
  readonly nodes: Map<string, FakeDeviceNode>;
}

export function createFakeDeviceNodes(): FakeDeviceNodes {
  const nodes = new Map<string, FakeDeviceNode>();
  const ensureCopy = ({ source, path, uid, gid, mode }: DeviceCopy): CopyResult => {
    const from = nodes.get(source);
    if (from === undefined) {
      nodes.delete(path);
      return "removed";
    }
    const copy = { ...from, uid, gid, mode };
    if (JSON.stringify(nodes.get(path)) === JSON.stringify(copy)) return "unchanged";
    nodes.set(path, copy);
    return "made";
  };
  return { nodes, ensureCopy: (copy) => Promise.resolve(ensureCopy(copy)) };
}
