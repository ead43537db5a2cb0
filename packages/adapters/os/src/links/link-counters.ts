// SPDX-License-Identifier: Apache-2.0
// What has gone through the links of a network namespace? Read as a file, in it: no program runs.
import type { DirectionCounts, LinkCounts } from "@patchbay/core";
import type { LinkCounters, NetnsHandle } from "@patchbay/core/ports";
import { checkedFd } from "../checked-descriptor.ts";
import { toFileError } from "../files/file-errors.ts";
import { osNative } from "../native.ts";

/** Links that are told; a pod has a few for each NIC. */
const LINKS_MAX = 1000;
/** Where the numbers of a direction begin in a line, and what they are there. Source: linux net/core/net-procfs.c. */
const RECEIVED = 0;
const TRANSMITTED = 8;
const COLUMNS = 16;

function directionOf(numbers: readonly number[], from: number): DirectionCounts {
  const [bytes = 0, packets = 0, errors = 0, dropped = 0] = numbers.slice(from);
  return { bytes, packets, errors, dropped };
}

/** A name may have a colon in it, as those of aliases had. */
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
    received: directionOf(numbers, RECEIVED),
    transmitted: directionOf(numbers, TRANSMITTED),
  };
}

/** Reads the text of `/proc/net/dev`. */
export function parseLinkCounters(text: string): readonly LinkCounts[] {
  return text
    .split("\n")
    .flatMap((line) => parseLine(line) ?? [])
    .slice(0, LINKS_MAX);
}

/** Counters as the kernel has them. */
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
