// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import type { NewVm } from "@patchbay/core/new-vm";
import { checkNewVm, readMacs } from "./read-new-vm.ts";

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

describe("checkNewVm", () => {
  const order: NewVm = {
    name: "web",
    namespace: undefined,
    volumes: [{ name: "root", source: { image: "debian12" } }],
    size: undefined,
    instancetype: undefined,
    preference: undefined,
    userData: "",
    disks: [],
    networks: ["blue"],
    macs: new Map(),
    isStopped: false,
  };

  test("returns a VM without problems", () => {
    expect(checkNewVm(order)).toBe(order);
  });

  test.each([
    {
      more: { volumes: [{ name: "cloud-init", source: { claim: "c" } }] },
      want: /--volume-containerdisk, --volume-pvc.*two disks would be named cloud-init/,
    },
    {
      more: { networks: ["blue", "b/blue"] },
      want: /--network.*two interfaces would be named blue/,
    },
  ])("throws $want", ({ more, want }) => {
    expect(() => checkNewVm({ ...order, ...more })).toThrow(want);
  });
});
