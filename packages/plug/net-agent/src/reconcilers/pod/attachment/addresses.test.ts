// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { parseAddress } from "./addresses.ts";

test.each([
  { text: "10.0.0.1", want: { address: "10.0.0.1" } },
  { text: "10.0.0.1/24", want: { address: "10.0.0.1", prefix: 24 } },
  { text: "10.0.0.1/32", want: { address: "10.0.0.1", prefix: 32 } },
  { text: "FD00:0:0::2/64", want: { address: "fd00::2", prefix: 64 } },
  { text: "fd00::2/128", want: { address: "fd00::2", prefix: 128 } },
  { text: "::ffff:10.0.0.1", want: { address: "::ffff:10.0.0.1" } },
])("$text is an address", ({ text, want }) => {
  expect(parseAddress(text)).toStrictEqual(want);
});

test.each([
  "",
  "foo",
  "10.0.0.1/33",
  "fd00::2/129",
  "10.0.0.1/",
  "10.0.0.1/a",
  "10.0.0.1/24/8",
  "/10.0.0.1",
  "10.0.0.1/0024",
  "fe80::1%eth0",
])("%j is none", (text) => {
  expect(parseAddress(text)).toBeUndefined();
});
