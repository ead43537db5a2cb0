// SPDX-License-Identifier: Apache-2.0
// Byte by byte; what switches and neighbours make of them is the contract's matter.
import { expect, test } from "vitest";
import { buildAnnouncements } from "./announcements.ts";

const MAC = "02:00:00:00:5e:01";
const NIC = { podInterfaceName: "pod1", mac: MAC };

function toHex(...addresses: readonly string[]): readonly string[] {
  return buildAnnouncements({ ...NIC, addresses }).map((frame) =>
    Buffer.from(frame).toString("hex"),
  );
}

const ALL = "ffffffffffff020000005e01";
const [REVERSE] = toHex();

test("announces the guest's MAC to switches with a RARP request, like QEMU", () => {
  const ends = "020000005e0100000000".repeat(2);
  expect(toHex()).toEqual([`${ALL}80350001080006040003${ends}`.padEnd(120, "0")]);
});

test("announces each IPv4 address to neighbors, with or without a prefix length", () => {
  const ends = "020000005e010a090001" + "0000000000000a090001";
  const frame = `${ALL}08060001080006040001${ends}`.padEnd(120, "0");
  expect(toHex("10.9.0.1/24")).toEqual([REVERSE, frame]);
  expect(toHex("10.9.0.1", "none")).toEqual([REVERSE, frame]);
});

test("announces each IPv6 address to neighbors, overriding a cached MAC", () => {
  const address = "fd090000000000000000000000000001";
  const head = `333300000001020000005e0186dd6000000000203aff${address}ff02${"0".repeat(27)}1`;
  const [, frame = ""] = toHex("fd09::1/64");
  expect(frame.slice(0, head.length)).toBe(head);
  // The check sum is the kernel's to judge.
  const rest = frame.slice(head.length);
  expect(rest.slice(0, 4)).toBe("8800");
  expect(rest.slice(8)).toBe(`20000000${address}0201020000005e01`);
});
