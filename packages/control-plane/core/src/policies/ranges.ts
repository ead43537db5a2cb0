// SPDX-License-Identifier: Apache-2.0
import { IP_BITS, parseIp, printAddress, toNetworkAddress } from "@patchbay/api/values";

export interface Range {
  readonly first: bigint;
  readonly last: bigint;
}

export interface AddressRange extends Range {
  readonly version: 4 | 6;
}

/** Parses an address or a CIDR block. */
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

function subtractRange(ranges: readonly Range[], hole: Range): readonly Range[] {
  return ranges.flatMap(({ first, last }) =>
    [
      { first, last: hole.first - 1n < last ? hole.first - 1n : last },
      { first: hole.last + 1n > first ? hole.last + 1n : first, last },
    ].filter((part) => part.first <= part.last),
  );
}

/** Returns the addresses of a block without the given parts. Returns nothing for an invalid block or part. */
export function listBlockRanges(cidr: string, except: readonly string[]): readonly AddressRange[] {
  const block = parseRange(cidr);
  const holes = except.map(parseRange);
  if (block === undefined || holes.includes(undefined)) return [];
  const { version } = block;
  return holes
    .flatMap((hole) => (hole?.version === version ? [hole] : []))
    .reduce<readonly Range[]>(subtractRange, [block])
    .map((range) => ({ ...range, version }));
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
