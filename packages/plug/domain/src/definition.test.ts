// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { machineFamilyOf } from "./definition.ts";

test.each([
  { machine: "q35", family: "q35" },
  { machine: "pc-q35-9.0", family: "q35" },
  { machine: "pc", family: "pc" },
  { machine: "pc-i440fx-7.2", family: "pc" },
  { machine: "", family: undefined },
  { machine: "microvm", family: undefined },
  { machine: "pc-0.14", family: undefined },
])("the family of $machine is $family", ({ machine, family }) => {
  expect(machineFamilyOf(machine)).toBe(family);
});
