// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { isWithin, networkOf, parseIp, printAddress } from "./ip.ts";

function printed(text: string): string | undefined {
  const parsed = parseIp(text);
  return parsed && `${printAddress(parsed)}/${String(parsed.length)}`;
}

describe("an address", () => {
  test.each([
    ["10.0.2.1", "10.0.2.1/32"],
    ["0.0.0.0/0", "0.0.0.0/0"],
    ["255.255.255.255/31", "255.255.255.255/31"],
    ["::", "::/128"],
    ["::1", "::1/128"],
    ["FD10:0:2::1/120", "fd10:0:2::1/120"],
    ["fe80::", "fe80::/128"],
    ["1:0:0:2:0:0:0:3", "1:0:0:2::3/128"],
    ["1:0:0:2:3:0:0:4", "1::2:3:0:0:4/128"],
    ["1:0:2:3:4:5:6:7", "1:0:2:3:4:5:6:7/128"],
    ["1::2:3:4:5:6:7", "1:0:2:3:4:5:6:7/128"],
    ["64:ff9b::10.0.2.1", "64:ff9b::a00:201/128"],
  ])("%s is read and printed as %s", (text, want) => {
    expect(printed(text)).toBe(want);
  });

  test.each([
    "",
    "10.0.2",
    "10.0.2.256",
    "10.0.2.01",
    "10.0.2.1.",
    "10.0.2.1/33",
    "10.0.2.1/",
    "10.0.2.1/24/24",
    "10.0.2.x",
    ":",
    "1:2:3:4:5:6:7",
    "1:2:3:4:5:6:7:8:9",
    "1::2::3",
    "1:2:3:4:5:6:7::8",
    "12345::",
    "::/129",
    "::10.0.2.256",
    "fe80::1%eth0",
  ])("%j is none", (text) => {
    expect(parseIp(text)).toBeUndefined();
  });
});

function ip(text: string): NonNullable<ReturnType<typeof parseIp>> {
  const parsed = parseIp(text);
  if (parsed === undefined) throw new Error(text);
  return parsed;
}

test.each([
  ["10.0.2.77/24", "10.0.2.0"],
  ["10.0.2.77", "10.0.2.77"],
  ["10.0.2.77/0", "0.0.0.0"],
  ["fd10:0:2::77/120", "fd10:0:2::"],
])("the network of %s begins at %s", (text, want) => {
  expect(printAddress(networkOf(ip(text)))).toBe(want);
});

test.each([
  ["10.0.2.2", "10.0.2.0/24", true],
  ["10.0.3.2", "10.0.2.0/24", false],
  ["10.0.2.0/24", "10.0.2.2", false],
  ["10.0.2.0/25", "10.0.2.9/24", true],
  ["::", "0.0.0.0/0", false],
])("%s within %s: %s", (address, prefix, want) => {
  expect(isWithin(ip(address), ip(prefix))).toBe(want);
});
