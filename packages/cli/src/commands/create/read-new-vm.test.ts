// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { readMacs, makeNetworkData } from "./read-new-vm.ts";
import { parse } from "yaml";

const NAMES = ["default", "blue", "red"];
const [ONE, TWO] = ["02:00:00:00:00:01", "02:00:00:00:00:02"];

describe("--mac", () => {
  test.each([
    { name: "applies to the networks in order", texts: [ONE, TWO], want: { blue: ONE, red: TWO } },
    {
      name: "applies to the interface that it names",
      texts: [`default=${ONE}`, TWO],
      want: { default: ONE, blue: TWO },
    },
    {
      name: "is normalized",
      texts: ["02-AB-CD-00-00-01"],
      want: { blue: "02:ab:cd:00:00:01" },
    },
    { name: "may be omitted", texts: [], want: {} },
  ])("$name", ({ texts, want }) => {
    expect(Object.fromEntries(readMacs(texts, NAMES))).toEqual(want);
  });

  test("applies to the pod network's interface if there is no other", () => {
    expect([...readMacs([ONE], ["default"])]).toEqual([["default", ONE]]);
  });

  test.each([
    { texts: ["02:zz"], want: "02:zz is not the MAC address of a NIC" },
    { texts: ["01:00:5e:00:00:01"], want: "is not the MAC address of a NIC" },
    { texts: [ONE, TWO, ONE], want: `${ONE}: there is no further --network` },
    { texts: [`green=${ONE}`], want: "the VM has no interface green" },
    { texts: [`blue=${ONE}`, `blue=${TWO}`], want: "interface blue has two MAC addresses" },
    { texts: ["x", `green=${ONE}`], want: `x: x is not the MAC address of a NIC; green=${ONE}:` },
  ])("rejects $texts: $want", ({ texts, want }) => {
    expect(() => readMacs(texts, NAMES)).toThrow(want);
  });
});

test("network data enable DHCP on each NIC by MAC and prefer the pod network's default route", () => {
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
