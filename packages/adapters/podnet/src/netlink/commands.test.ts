// SPDX-License-Identifier: Apache-2.0
// What a command becomes, byte by byte where it counts; what the kernel makes of it is the contract's matter.
import { describe, expect, test } from "vitest";
import { deedOf } from "./commands.ts";

const INDICES = new Map([
  ["k6t-1", 3],
  ["tap1", 4],
]);
const indexOf = (name: string): number => INDICES.get(name) ?? 0;

function hexOf(command: string): string {
  const deed = deedOf(command, indexOf);
  return deed.kind === "message" ? Buffer.from(deed.message).toString("hex") : deed.kind;
}

describe("a command", () => {
  test.each([
    // Header (length, type 16, flags 5), then family, index, flags and mask.
    ["link set tap1 up", "20000000100005000000000000000000000000000400000001000000 01000000"],
    ["link set tap1 down", "20000000100005000000000000000000000000000400000000000000 01000000"],
    [
      "link set tap1 master k6t-1",
      "28000000100005000000000000000000000000000400000000000000 00000000 08000a0003000000",
    ],
    ["link del k6t-1", "20000000110005000000000000000000000000000300000000000000 00000000"],
    [
      "addr add 10.0.0.1/24 dev k6t-1 noprefixroute",
      "30000000140005060000000000000000 02180000 03000000 080002000a000001 080001000a000001 0800080000020000",
    ],
    [
      "fdb replace 02:00:00:00:00:0a dev tap1 master static",
      "28000000 1c00 0505 0000000000000000 07000000 04000000 4200 04 00 0a000200 02000000000a 0000",
    ],
  ])("is said: %s", (command, hex) => {
    expect(hexOf(command)).toBe(hex.replaceAll(" ", ""));
  });

  test("makes a tap", () => {
    const command = "tuntap add dev tap1 mode tap multi_queue user 107 group 107";
    const made = { kind: "makeTap", name: "tap1", owner: 107, takesMany: true };
    expect(deedOf(command, indexOf)).toEqual(made);
    expect(deedOf(command.replace(" multi_queue", ""), indexOf)).toMatchObject({
      takesMany: false,
    });
  });

  test.each([
    "",
    "route add x",
    "link set tap1 colour red",
    "link rename tap1",
    "addr add x dev tap1",
  ])("that no plan has is a fault: %j", (command) => {
    expect(() => deedOf(command, indexOf)).toThrow("is no command");
  });
});
