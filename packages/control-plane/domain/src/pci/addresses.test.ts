// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { parsePciAddress, printPciAddress, findMachineFamily } from "./addresses.ts";

test.each([
  { text: "0000:00:02.0", address: { bus: 0, slot: 2, function: 0 } },
  { text: "0000:ff:1f.7", address: { bus: 255, slot: 31, function: 7 } },
])("round-trips $text", ({ text, address }) => {
  expect(parsePciAddress(text)).toEqual(address);
  expect(parsePciAddress(text.toUpperCase())).toEqual(address);
  expect(printPciAddress(address)).toBe(text);
});

describe("rejects an address", () => {
  test.each(["", "02:00.0", "0001:02:00.0", "0000:02:20.0", "0000:02:00.8", "x0000:02:00.0"])(
    "%j",
    (text) => {
      expect(parsePciAddress(text)).toBeUndefined();
    },
  );
});

test.each([
  { machine: "q35", family: "q35" },
  { machine: "pc-q35-9.0", family: "q35" },
  { machine: "pc", family: "pc" },
  { machine: "pc-i440fx-7.2", family: "pc" },
  { machine: "", family: undefined },
  { machine: "microvm", family: undefined },
  { machine: "pc-0.14", family: undefined },
])("machine type $machine belongs to family $family", ({ machine, family }) => {
  expect(findMachineFamily(machine)).toBe(family);
});
