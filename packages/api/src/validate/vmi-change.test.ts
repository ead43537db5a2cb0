// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import type { Network } from "../kinds/network.ts";
import { validateVmiNetworkChange } from "./vmi-change.ts";

const POD: Network = { name: "default", pod: {} };
const BLUE: Network = { name: "blue", multus: { networkName: "blue" } };

test.each<{ name: string; after: readonly Network[]; want: readonly string[] }>([
  { name: "an added network is possible", after: [POD, BLUE], want: [] },
  { name: "a removed default network is refused", after: [BLUE], want: ["spec.networks"] },
  {
    name: "a default network that became another one is refused",
    after: [{ name: "default", multus: { networkName: "blue" } }],
    want: ["spec.networks"],
  },
])("$name", ({ after, want }) => {
  const causes = validateVmiNetworkChange(
    { domain: {}, networks: [POD] },
    { domain: {}, networks: [...after] },
  );
  expect(causes.map(({ field }) => field)).toEqual(want);
});
