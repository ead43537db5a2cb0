// SPDX-License-Identifier: Apache-2.0
import type { DirectionCounts, LinkCounts } from "@patchbay/core/metrics";
import type { LinkCounters, NetnsHandle } from "@patchbay/core/interfaces";
import { checkedFd } from "./descriptors.ts";
import { toFileError } from "./files/file-errors.ts";
import { osNative } from "./native.ts";

/** Maximum number of links to return, far above the few links per NIC of a pod. */
const LINKS_MAX = 1000;
/** Columns of /proc/net/dev, counted from the column after the link's name. Source: linux net/core/net-procfs.c */
const RECEIVED_COLUMN = 0;
const TRANSMITTED_COLUMN = 8;
const COLUMN_COUNT = 16;

function parseDirection(numbers: readonly number[], firstColumn: number): DirectionCounts {
  const [bytes = 0, packets = 0, errors = 0, dropped = 0] = numbers.slice(firstColumn);
  return { bytes, packets, errors, dropped };
}

/** Parses a line of /proc/net/dev. The name of an interface alias may contain colons, so the last colon ends the name. */
function parseLine(line: string): LinkCounts | undefined {
  const end = line.lastIndexOf(":");
  const numbers = line
    .slice(end + 1)
    .trim()
    .split(/\s+/)
    .map(Number);
  if (end < 0 || numbers.length !== COLUMN_COUNT || numbers.some(Number.isNaN)) return undefined;
  return {
    name: line.slice(0, end).trim(),
    received: parseDirection(numbers, RECEIVED_COLUMN),
    transmitted: parseDirection(numbers, TRANSMITTED_COLUMN),
  };
}

export function parseLinkCounters(text: string): readonly LinkCounts[] {
  return text
    .split("\n")
    .flatMap((line) => parseLine(line) ?? [])
    .slice(0, LINKS_MAX);
}

export function createLinkCounters(): LinkCounters {
  return {
    async read(netns: NetnsHandle): Promise<readonly LinkCounts[]> {
      const fd = checkedFd(netns);
      try {
        return parseLinkCounters(await osNative().readLinkCounters(fd));
      } catch (error) {
        throw toFileError(error, "setns", `net:[${netns.inode}]`);
      }
    },
  };
}
