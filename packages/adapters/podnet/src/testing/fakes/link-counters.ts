// SPDX-License-Identifier: Apache-2.0
import { AppError } from "@patchbay/base";
import type { LinkCounts } from "@patchbay/core/metrics";
import type { NetnsHandle, LinkCounters } from "@patchbay/core/interfaces";

/** {@link LinkCounters} in memory; a namespace exists once it has a link. */
export interface FakeLinkCounters extends LinkCounters {
  put(netnsInode: string, counts: LinkCounts): void;
  readonly readCount: number;
}

export function createFakeLinkCounters(): FakeLinkCounters {
  const namespaces = new Map<string, Map<string, LinkCounts>>();
  let readCount = 0;
  return {
    get readCount(): number {
      return readCount;
    },
    put(inode, counts): void {
      const links = namespaces.get(inode) ?? new Map<string, LinkCounts>();
      namespaces.set(inode, links.set(counts.name, counts));
    },
    read({ fd, inode }: NetnsHandle): Promise<readonly LinkCounts[]> {
      readCount += 1;
      const links = namespaces.get(inode);
      if (links !== undefined) return Promise.resolve([...links.values()]);
      return Promise.reject(new AppError("OS_DESCRIPTOR_STALE", { fd }));
    },
  };
}
