// SPDX-License-Identifier: Apache-2.0
import type { DirectionCounts, LinkCounts } from "@patchbay/core/metrics";
import type { LinkCounters, NetnsHandle } from "@patchbay/core/interfaces";
import { checkedFd } from "./descriptors.ts";
import { toFileError } from "./files/file-errors.ts";
import { osNative } from "./native.ts";

/** Links to return at most; a pod has a few per NIC. */
const LINKS_MAX = 1000;
/** Columns of a line. Source: linux net/core/net-procfs.c */
const RECEIVED = 0;
const TRANSMITTED = 8;
const COLUMNS = 16;

function parseDirection(numbers: readonly number[], from: number): DirectionCounts {
  const [bytes = 0, packets = 0, errors = 0, dropped = 0] = numbers.slice(from);
  return { bytes, packets, errors, dropped };
}

/** A name may contain a colon, as names of aliases did. */
function parseLine(line: string): LinkCounts | undefined {
  const end = line.lastIndexOf(":");
  const numbers = line
    .slice(end + 1)
    .trim()
    .split(/\s+/)
    .map(Number);
  if (end < 0 || numbers.length !== COLUMNS || numbers.some(Number.isNaN)) return undefined;
  return {
    name: line.slice(0, end).trim(),
    received: parseDirection(numbers, RECEIVED),
    transmitted: parseDirection(numbers, TRANSMITTED),
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
