// SPDX-License-Identifier: Apache-2.0
import { aVm, aVmi } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import type { Target } from "../../session.ts";
import { ifacePatch } from "./change-settings.ts";

const NICS = {
  domain: { devices: { interfaces: [{ name: "default" }, { name: "red" }] } },
  networks: [
    { name: "default", pod: {} },
    { name: "red", multus: { networkName: "red" } },
  ],
};
const NAMED = { namespace: "blue", name: "one" };
const VM: Target = {
  ...NAMED,
  kind: "virtualmachine",
  vm: { ...aVm(), spec: { template: { spec: NICS } } },
};
const VMI: Target = {
  ...NAMED,
  kind: "virtualmachineinstance",
  vmi: { ...aVmi(), spec: NICS },
};

describe("ifacePatch", () => {
  test.each([
    {
      name: "moves the interface to another network",
      target: VM,
      settings: { network: "nets/green" },
      want: [
        { op: "test", path: "/spec/template/spec/networks/1/name", value: "red" },
        {
          op: "add",
          path: "/spec/template/spec/networks/1/multus/networkName",
          value: "nets/green",
        },
      ],
    },
    {
      name: "sets the link of a VMI without a VM",
      target: VMI,
      settings: { link: "down" },
      want: [
        { op: "test", path: "/spec/domain/devices/interfaces/1/name", value: "red" },
        { op: "add", path: "/spec/domain/devices/interfaces/1/state", value: "down" },
      ],
    },
    {
      name: "changes network and link in one write",
      target: VMI,
      settings: { link: "up", network: "green" },
      want: [
        { op: "test", path: "/spec/networks/1/name", value: "red" },
        { op: "add", path: "/spec/networks/1/multus/networkName", value: "green" },
        { op: "test", path: "/spec/domain/devices/interfaces/1/name", value: "red" },
        { op: "add", path: "/spec/domain/devices/interfaces/1/state", value: "up" },
      ],
    },
  ] as const)("$name", ({ target, settings, want }) => {
    expect(ifacePatch(target, "red", settings)).toEqual(want);
  });

  test.each([
    { name: "no setting", iface: "red", settings: {}, want: /set at least one/ },
    {
      name: "an invalid network",
      iface: "red",
      settings: { network: "a/b/c" },
      want: /"a\/b\/c" is neither NAME nor NAMESPACE\/NAME/,
    },
    {
      name: "another network for the pod network's interface",
      iface: "default",
      settings: { network: "green" },
      want: /interface default is on the pod's default network.*patchbay addinterface/,
    },
    {
      name: "a missing interface",
      iface: "green",
      settings: { link: "up" },
      want: /interface green of virtualmachine blue\/one does not exist/,
    },
  ] as const)("rejects $name", ({ iface, settings, want }) => {
    expect(() => ifacePatch(VM, iface, settings)).toThrow(want);
  });
});
