// SPDX-License-Identifier: Apache-2.0
import { SocketAddress } from "node:net";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  isWithin,
  toNetworkAddress,
  parseIp,
  parseSloppyIp,
  printAddress,
  isLinkLocal,
  toLinkLocal,
} from "./ip.ts";

function printed(text: string): string | undefined {
  const parsed = parseIp(text);
  return parsed && `${printAddress(parsed)}/${String(parsed.length)}`;
}

describe("an IP address", () => {
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
    ["::10.0.2.1", "::a00:201/128"],
    ["::ffff:10.0.2.1/96", "::ffff:a00:201/96"],
    ["1:2:3:4:5:6:10.0.2.1", "1:2:3:4:5:6:a00:201/128"],
    ["::2:3:4:5:6:7:8", "0:2:3:4:5:6:7:8/128"],
    ["0:0:1:2:3:0:0:4", "::1:2:3:0:0:4/128"],
    ["1:2:3:4:5:6:0:0", "1:2:3:4:5:6::/128"],
  ])("%s is parsed and printed as %s", (text, want) => {
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
    "10.0.2.1/024",
    "10.0.2.1/a",
    "/10.0.2.1",
    "1.2",
    "4294967295",
    "0x10.1.2.3",
    "010.1.2.3",
    " 10.0.2.1",
    ":",
    "1:2:3:4:5:6:7",
    "1:2:3:4:5:6:7:8:9",
    "1::2::3",
    "1:2:3:4:5:6:7::8",
    "12345::",
    "::/129",
    "::10.0.2.256",
    "::10.0.2.01",
    "::0x1.1.1.1",
    "::1.2",
    "10.0.2.1::",
    "1:2:3:4:5:6:7.10.0.2.1",
    "::10.0.2.1:1",
    "[::1]",
    "fe80::1%eth0",
  ])("rejects %j", (text) => {
    expect(parseIp(text)).toBeUndefined();
  });
});

/** As libc prints it, which writes the end of some addresses as IPv4. */
function printedElsewhere(text: string): string {
  const { address } = new SocketAddress({ address: text, family: "ipv6" });
  return address.includes(".") ? printAddress(ip(address)) : address;
}

test("prints any IPv6 address like libc, and parses it again", () => {
  const group = fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 0xffff }));
  const groups = fc.array(group, { minLength: 8, maxLength: 8 });
  fc.assert(
    fc.property(groups, (each) => {
      const text = each.map((one) => one.toString(16)).join(":");
      const address = printAddress(ip(text));
      expect(address).toBe(printedElsewhere(text));
      expect(ip(address)).toEqual(ip(text));
    }),
  );
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
  expect(printAddress(toNetworkAddress(ip(text)))).toBe(want);
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

describe("an address with leading zeros", () => {
  test.each([
    ["01.1.1.1", "1.1.1.1"],
    ["10.10.010.0/24", "10.10.10.0"],
    ["0127.0.0.3", "127.0.0.3"],
    ["000.00.0.008", "0.0.0.8"],
    ["10.0.2.1", "10.0.2.1"],
    ["0.0.0.0/0", "0.0.0.0"],
    ["fd00:0:0:01::010", "fd00:0:0:1::10"],
    ["::ffff:010.0.2.1", undefined],
    ["10.0.2.0256", undefined],
    ["10.0.2.1/024", undefined],
    ["0x1.0.0.1", undefined],
    ["a01.1.1.1", undefined],
  ])("%s is parsed as %s", (text, want) => {
    const parsed = parseSloppyIp(text);
    expect(parsed && printAddress(parsed)).toBe(want);
  });
});

test.each([
  { address: "169.254.1.1", want: true },
  { address: "169.253.1.1", want: false },
  { address: "10.0.0.1", want: false },
  { address: "fe80::1", want: true },
  { address: "fe80::1/64", want: true },
  { address: "febf::1", want: true },
  { address: "fec0::1", want: false },
  { address: "fd00::1", want: false },
  { address: "fe80", want: false },
])("$address is link-local: $want", ({ address, want }) => {
  expect(isLinkLocal(address)).toBe(want);
});

test.each([
  ["02:00:00:00:5e:01", "fe80::ff:fe00:5e01"],
  ["52:54:00:12:34:56", "fe80::5054:ff:fe12:3456"],
])("the guest with MAC %s has address %s on every link", (mac, want) => {
  expect(toLinkLocal(mac)).toBe(want);
});
