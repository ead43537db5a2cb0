// SPDX-License-Identifier: Apache-2.0
// What is read from the host and written for it.
import { describe, expect, test } from "vitest";
import { buildDefaultNetwork } from "./cni.ts";
import { parseLoopDevicesBelow } from "./leftovers.ts";
import { buildRestoreInput, findRulesWithin } from "./rules.ts";
import { buildUnitText } from "./service-unit.ts";
import { chooseFreeSubnet, overlaps } from "../settings/subnet.ts";

describe("the pods' subnet", () => {
  test.each([
    { name: "no routes conflict", routes: [], want: "10.88.111.0/24" },
    { name: "the first is in use", routes: ["10.88.111.0/24"], want: "10.88.112.0/24" },
    {
      name: "an address of the first subnet is in use",
      routes: ["10.88.111.7"],
      want: "10.88.112.0/24",
    },
    { name: "another network is", routes: ["192.168.0.0/16"], want: "10.88.111.0/24" },
    {
      name: "a larger network covers several subnets",
      routes: ["10.88.96.0/19"],
      want: "10.88.128.0/24",
    },
    { name: "all subnets are in use", routes: ["10.0.0.0/8"], want: "10.88.111.0/24" },
  ])("when $name is $want", ({ routes, want }) => {
    expect(chooseFreeSubnet(routes)).toBe(want);
  });

  test.each([
    { one: "10.0.1.9/24", other: "10.0.1.200", want: true },
    { one: "10.0.0.0/8", other: "10.0.1.0/24", want: true },
    { one: "10.0.1.0/24", other: "10.0.2.0/24", want: false },
    { one: "10.0.1.0/24", other: "default", want: false },
  ])("$one and $other overlap: $want", ({ one, other, want }) => {
    expect([overlaps(one, other), overlaps(other, one)]).toEqual([want, want]);
  });
});

test("the default network has a bridge, a gateway and masquerading", () => {
  const settings = {
    apiPort: 1,
    virtApiPort: 2,
    virtHandlerPort: 3,
    nodeName: "n",
    podSubnet: "10.88.111.0/24",
    serviceSubnet: "10.96.0.0/16",
    bridge: "patchbay0",
  };
  expect(buildDefaultNetwork(settings, "/leases")).toMatchObject({
    plugins: [
      {
        type: "bridge",
        bridge: "patchbay0",
        isGateway: true,
        ipMasq: true,
        ipam: { dataDir: "/leases", ranges: [[{ subnet: "10.88.111.0/24" }]] },
      },
    ],
  });
});

// Captured from `losetup --list --noheadings --raw --output NAME,AUTOCLEAR,BACK-FILE` of util-linux 2.38.
test("finds loop devices of the machine's files only", () => {
  const listed = String.raw`/dev/loop0 0 /data/one/claims/a/volume.img
/dev/loop3 1 /data/one/claims/mounted/volume.img
/dev/loop1 0 /data/one\x20more/claims/b/volume.img
/dev/loop2 0 /snap/core.squashfs
`;
  expect(parseLoopDevicesBelow(listed, "/data/one")).toEqual(["/dev/loop0"]);
  expect(parseLoopDevicesBelow(listed, "/data/one more")).toEqual(["/dev/loop1"]);
  expect(parseLoopDevicesBelow("", "/data")).toEqual([]);
});

// Captured from `iptables -t nat -S` after the bridge plugin of containernetworking-plugins 1.1.1.
const LISTING = String.raw`-P POSTROUTING ACCEPT
-N CNI-d1ea458b499ca99cf43d02c9
-A POSTROUTING -s 10.88.111.2/32 -m comment --comment "name: \"patchbay\" id: \"d893f708\"" -j CNI-d1ea458b499ca99cf43d02c9
-A POSTROUTING -s 10.88.112.2/32 -m comment --comment "name: \"patchbay\" id: \"ff8aa02b\"" -j CNI-2114284cfd2c41e0cbf7846d
-A POSTROUTING -s 10.88.111.0/24 -j MASQUERADE
-A CNI-d1ea458b499ca99cf43d02c9 -d 10.88.111.0/24 -j ACCEPT`;

test("removes masquerade rules of our subnet only, rule before chain", () => {
  const rules = findRulesWithin(LISTING, "10.88.111.0/24");
  expect(buildRestoreInput(rules)).toBe(
    [
      "*nat",
      String.raw`-D POSTROUTING -s 10.88.111.2/32 -m comment --comment "name: \"patchbay\" id: \"d893f708\"" -j CNI-d1ea458b499ca99cf43d02c9`,
      "-F CNI-d1ea458b499ca99cf43d02c9",
      "-X CNI-d1ea458b499ca99cf43d02c9",
      "COMMIT",
      "",
    ].join("\n"),
  );
});

test("a unit quotes what systemd would read", () => {
  expect(buildUnitText(["/bin/node", '{"a":"50%"}'])).toContain(
    String.raw`ExecStart="/bin/node" "{\"a\":\"50%%\"}"`,
  );
});
