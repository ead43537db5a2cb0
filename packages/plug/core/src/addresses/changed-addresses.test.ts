// SPDX-License-Identifier: Apache-2.0
import type { Attachment, NetworkSelection } from "@patchbay/api";
import { expect, test } from "vitest";
import type { Conditions } from "../status/conditions.ts";
import { ADDRESS_CHANGED, addressesCondition, newAddressChange } from "./changed-addresses.ts";

const ATTACHED: Attachment = {
  name: "blue1",
  networkName: "ns1/blue",
  podInterfaceName: "pod1",
  state: "Attached",
};

function elementWith(...ips: readonly string[]): readonly NetworkSelection[] {
  return [{ name: "blue", interface: "pod1", "io.patchbay.kept-ips": ips }];
}

test.each<{ name: string; ips: readonly string[]; asked: readonly NetworkSelection[] }>([
  { name: "all have what they had", ips: ["fd00:0::5", "10.0.0.5"], asked: elementWith("fd00::5") },
  { name: "nothing was preferred", ips: ["10.0.0.5"], asked: elementWith() },
  {
    name: "the preference is of another NIC",
    ips: [],
    asked: [{ name: "blue", interface: "pod2" }],
  },
])("nothing is told where $name", ({ ips, asked }) => {
  expect(addressesCondition([{ ...ATTACHED, ips: [...ips] }], asked)).toEqual([]);
});

test("nothing is told of a NIC that is not there yet", () => {
  expect(addressesCondition([{ ...ATTACHED, state: "Failed" }], elementWith("10.0.0.5"))).toEqual(
    [],
  );
});

test("what is not as before is told, with what was", () => {
  const other = { ...ATTACHED, name: "red1", networkName: "ns1/red", podInterfaceName: "pod2" };
  const asked = [
    ...elementWith("10.0.0.5", "fd00::5"),
    { name: "red", interface: "pod2", "io.patchbay.kept-ips": ["10.1.0.5"] },
  ];
  const attachments = [{ ...ATTACHED, ips: ["10.0.0.7", "fd00::5"] }, other];
  expect(addressesCondition(attachments, asked)).toEqual([
    {
      type: ADDRESS_CHANGED,
      status: "True",
      reason: "AddressNotKept",
      message:
        "interface blue1 now has 10.0.0.7, fd00::5 on ns1/blue; it had 10.0.0.5 before; interface red1 now has no address on ns1/red; it had 10.1.0.5 before; events of the launcher pod say why",
    },
  ]);
});

test("an event tells of each change once", () => {
  const conditions = (message: string): Conditions => [
    { type: ADDRESS_CHANGED, status: "True", reason: "AddressNotKept", message },
  ];
  const event = { reason: "AddressNotKept", message: "a" };
  expect(newAddressChange(undefined, conditions("a"))).toEqual(event);
  expect(newAddressChange(conditions("b"), conditions("a"))).toEqual(event);
  expect(newAddressChange(conditions("a"), conditions("a"))).toBeUndefined();
  expect(newAddressChange(conditions("a"), [])).toBeUndefined();
});
