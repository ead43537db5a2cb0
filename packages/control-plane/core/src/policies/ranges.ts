// SPDX-License-Identifier: Apache-2.0
import { IP_BITS, parseIp, printAddress, toNetworkAddress } from "@patchbay/api/values";

export interface Range {
  readonly first: bigint;
  readonly last: bigint;
}

export interface AddressRange extends Range {
  readonly version: 4 | 6;
}

export function parseRange(text: string): AddressRange | undefined {
  const prefix = parseIp(text);
  if (prefix === undefined) return undefined;
  const { version, value: first, length } = toNetworkAddress(prefix);
  const hostBits = BigInt(IP_BITS[version] - length);
  return { version, first, last: first + (1n << hostBits) - 1n };
}

/** Merges ranges that overlap or adjoin, because nft refuses overlapping elements of a set. */
export function mergeRanges(ranges: readonly Range[]): readonly Range[] {
  const merged: Range[] = [];
  const sorted = ranges.toSorted((left, right) => Number(left.first > right.first) * 2 - 1);
  for (const range of sorted) {
    const previous = merged.at(-1);
    if (previous === undefined || range.first > previous.last + 1n) merged.push(range);
    else if (range.last > previous.last)
      merged[merged.length - 1] = { first: previous.first, last: range.last };
  }
  return merged;
}

function subtractRanges(block: Range, mergedHoles: readonly Range[]): readonly Range[] {
  const starts = [block.first, ...mergedHoles.map(({ last }) => last + 1n)];
  const ends = [...mergedHoles.map(({ first }) => first - 1n), block.last];
  return starts
    .map((start, index) => {
      const end = ends[index] ?? block.last;
      return {
        first: start > block.first ? start : block.first,
        last: end < block.last ? end : block.last,
      };
    })
    .filter(({ first, last }) => first <= last);
}

/** Returns the addresses of a block without the given parts. Returns nothing for an invalid block or part. */
export function listBlockRanges(cidr: string, except: readonly string[]): readonly AddressRange[] {
  const block = parseRange(cidr);
  const holes = except.map(parseRange);
  if (block === undefined || holes.includes(undefined)) return [];
  const { version } = block;
  const holesOfVersion = holes.flatMap((hole) => (hole?.version === version ? [hole] : []));
  return subtractRanges(block, mergeRanges(holesOfVersion)).map((range) => ({ ...range, version }));
}

function printRange(version: 4 | 6, { first, last }: Range): string {
  const [start, end] = [first, last].map((value) => printAddress({ version, value }));
  return first === last ? (start ?? "") : `${start ?? ""}-${end ?? ""}`;
}

/** Prints ranges of both IP versions, merged and sorted, as FIRST-LAST or as one address. */
export function printRanges(ranges: readonly AddressRange[]): readonly string[] {
  return ([4, 6] as const).flatMap((version) =>
    mergeRanges(ranges.filter((range) => range.version === version)).map((range) =>
      printRange(version, range),
    ),
  );
}
