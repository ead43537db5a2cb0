// SPDX-License-Identifier: Apache-2.0
import { createVmObjects } from "@patchbay/core/new-vm";
import { describe, expect, test } from "vitest";
import { describeDisks } from "./create-vm.ts";

const ORDER = {
  name: "web",
  namespace: "blue",
  volumes: [{ name: "root", source: { image: "debian12" }, bootOrder: 1 }],
  size: { memory: "2Gi", cpus: 2 },
  instancetype: undefined,
  preference: undefined,
  userData: "#cloud-config\n",
  disks: [],
  networks: [],
  macs: new Map<string, string>(),
  isStopped: false,
};

describe("describeDisks", () => {
  test.each([
    {
      name: "only an image",
      more: {},
      want: /^its disk root is created anew .* --root SIZE keeps it$/,
    },
    {
      name: "an image and a claim",
      more: { disks: ["1Gi"] },
      want: /^its disk root is created anew at each start; the others are kept$/,
    },
    {
      name: "a persistent root disk",
      more: { rootSize: "10Gi", disks: ["1Gi"] },
      want: /^its disk root is filled once, before the first start, and deleted with the VM/,
    },
  ])("describes $name", ({ more, want }) => {
    expect(describeDisks(createVmObjects({ ...ORDER, ...more }))).toMatch(want);
  });
});
