// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { networkOf } from "./iface-rows.ts";

test.each([
  { network: { name: "a", pod: {} }, want: "pod" },
  { network: { name: "a", multus: { networkName: "blue" } }, want: "blue" },
  {
    network: { name: "a", resourceClaim: { claimName: "nics", requestName: "nic" } },
    want: "nics/nic",
  },
  { network: undefined, want: undefined },
])("shows network $network as $want", ({ network, want }) => {
  expect(networkOf({ name: "a", ...(network && { network }) })).toBe(want);
});
