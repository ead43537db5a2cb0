// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { formatPorts, parsePorts } from "./migration-status.ts";

test("maps ports to channels and back", () => {
  const ports = { libvirt: 40_001, memory: 40_002, disks: 40_003 };
  expect(formatPorts(ports)).toEqual({ "40001": 0, "40002": 49_152, "40003": 49_153 });
  expect(parsePorts(formatPorts(ports))).toEqual(ports);
});

test.each([
  { name: "nothing", told: undefined, want: {} },
  { name: "an unknown channel", told: { "40001": 7 }, want: {} },
  { name: "a port or key out of range", told: { x: 0, "0": 49_152, "70000": 49_153 }, want: {} },
])("has no port for $name", ({ told, want }) => {
  expect(parsePorts(told)).toEqual(want);
});
