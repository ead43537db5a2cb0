// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { isLinkLocal, linkLocalOf } from "./link-local.ts";

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
])("$address is good on its link only: $want", ({ address, want }) => {
  expect(isLinkLocal(address)).toBe(want);
});

test.each([
  ["02:00:00:00:5e:01", "fe80::ff:fe00:5e01"],
  ["52:54:00:12:34:56", "fe80::5054:ff:fe12:3456"],
])("who has the MAC %s is %s on every link", (mac, want) => {
  expect(linkLocalOf(mac)).toBe(want);
});
