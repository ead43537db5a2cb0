// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { parse } from "yaml";
import { makeNetworkData } from "./network-data.ts";

test("network data have DHCP on each NIC by its MAC; the pod network's default route comes first", () => {
  const text = makeNetworkData([
    { name: "default", mac: "02:00:00:00:00:01" },
    { name: "blue", mac: "02:00:00:00:00:02" },
  ]);
  expect(parse(text)).toEqual({
    version: 2,
    ethernets: {
      default: { match: { macaddress: "02:00:00:00:00:01" }, dhcp4: true },
      blue: {
        match: { macaddress: "02:00:00:00:00:02" },
        dhcp4: true,
        optional: true,
        "dhcp4-overrides": { "route-metric": 2048 },
      },
    },
  });
});
