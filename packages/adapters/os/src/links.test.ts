// SPDX-License-Identifier: Apache-2.0
import { closeSync, fstatSync, openSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { createLinkCounters, parseLinkCounters } from "./links.ts";

/** As Linux 6.1 prints it. */
const TEXT = `Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:     140       2    0    0    0     0          0         0      140       2    0    0    0     0       0          0
tap16477688c0e: 1234 12    1    2    3     4          5         6     98765     99    7    8    9    10      11         12
 eth0:1: 18446744073709551615 1 0 0 0 0 0 0 5 1 0 0 0 0 0 0
`;

test("parses each line as a link's counters", () => {
  expect(parseLinkCounters(TEXT)).toEqual([
    {
      name: "lo",
      received: { bytes: 140, packets: 2, errors: 0, dropped: 0 },
      transmitted: { bytes: 140, packets: 2, errors: 0, dropped: 0 },
    },
    {
      name: "tap16477688c0e",
      received: { bytes: 1234, packets: 12, errors: 1, dropped: 2 },
      transmitted: { bytes: 98765, packets: 99, errors: 7, dropped: 8 },
    },
    {
      name: "eth0:1",
      received: { bytes: 2 ** 64, packets: 1, errors: 0, dropped: 0 },
      transmitted: { bytes: 5, packets: 1, errors: 0, dropped: 0 },
    },
  ]);
});

test.each([
  "",
  "lo",
  "lo: 1 2 3",
  "lo: a b c d e f g h i j k l m n o p",
  ": \n:",
  "0 ".repeat(16),
  `lo: ${"0 ".repeat(15)}x`,
])("finds no link in %j", (text) => {
  expect(parseLinkCounters(text)).toEqual([]);
});

test("returns at most 1,000 links", () => {
  const line = `one: ${"0 ".repeat(16)}\n`;
  expect(parseLinkCounters(line.repeat(5_000))).toHaveLength(1_000);
});

describe("reading counters fails for", () => {
  test("a namespace whose descriptor was closed", async () => {
    const read = createLinkCounters().read({ fd: 1_000_000, inode: "1" });
    await expect(read).rejects.toMatchObject({ code: "OS_DESCRIPTOR_STALE" });
  });

  test("a file that is not a namespace", async () => {
    const fd = openSync("/proc/self/stat", "r");
    const inode = fstatSync(fd, { bigint: true }).ino.toString();
    const read = createLinkCounters().read({ fd, inode });
    await expect(read).rejects.toMatchObject({
      code: "OS_FILE_FAILED",
      details: { call: "setns", path: `net:[${inode}]`, errno: "EINVAL" },
    });
    closeSync(fd);
  });
});
