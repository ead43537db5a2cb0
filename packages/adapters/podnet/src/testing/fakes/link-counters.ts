// SPDX-License-Identifier: Apache-2.0
// Counters of links in memory.
import { AppError } from "@patchbay/base";
import type { LinkCounts } from "@patchbay/core/metrics";
import type { NetnsHandle, LinkCounters } from "@patchbay/core/interfaces";

/** {@link LinkCounters} in memory; a namespace is there once it has a link. */
export interface FakeLinkCounters extends LinkCounters {
  /** Sets the counters of a link. */
  put(netnsInode: string, counts: LinkCounts): void;
  /** How often was read. */
  readonly readings: number;
}

/** No namespace is there yet. */
export function createFakeLinkCounters(): FakeLinkCounters {
  const namespaces = new Map<string, Map<string, LinkCounts>>();
  let readings = 0;
  return {
    get readings(): number {
      return readings;
    },
    put(inode, counts): void {
      const links = namespaces.get(inode) ?? new Map<string, LinkCounts>();
      namespaces.set(inode, links.set(counts.name, counts));
    },
    read({ fd, inode }: NetnsHandle): Promise<readonly LinkCounts[]> {
      readings += 1;
      const links = namespaces.get(inode);
      if (links !== undefined) return Promise.resolve([...links.values()]);
      return Promise.reject(new AppError("OS_DESCRIPTOR_STALE", { fd }));
    },
  };
}
