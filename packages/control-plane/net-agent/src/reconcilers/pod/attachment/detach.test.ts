// SPDX-License-Identifier: Apache-2.0
import type { AttachmentRequest, CniResult } from "@patchbay/core/interfaces";
import { expect, test } from "vitest";
import { buildBorrowedNic } from "./detach.ts";

const OWN_MAC = "02:00:00:00:00:0A";
const GUEST_MAC = "02:00:00:00:00:01";
const NIC = { name: "net1", mac: OWN_MAC, sandbox: "/run/netns/box" };
const HOST_NIC = { name: "net1", mac: "02:00:00:00:00:0b" };
const OTHER_NIC = { name: "net2", mac: OWN_MAC, sandbox: "/run/netns/box" };

const REQUEST: AttachmentRequest = {
  containerId: "box",
  netnsPath: "/run/netns/box",
  interfaceName: "net1",
  config: { cniVersion: "1.0.0", name: "blue", plugins: [{ type: "bridge" }] },
  args: [
    ["IgnoreUnknown", "1"],
    ["MAC", GUEST_MAC],
  ],
  capabilityArgs: {},
};

function lentBy(result: Omit<CniResult, "cniVersion">, request = REQUEST): unknown {
  return buildBorrowedNic(request, { cniVersion: "1.0.0", ...result });
}

test("the NIC has the MAC and the addresses of the result", () => {
  const ips = [{ interface: 1, address: "10.0.0.2/24" }, { address: "fd00::2/64" }];
  expect(lentBy({ interfaces: [HOST_NIC, NIC, OTHER_NIC], ips })).toEqual({
    name: "net1",
    mac: OWN_MAC,
    addresses: ["10.0.0.2/24", "fd00::2/64"],
  });
});

test.each([
  { name: "of a host NIC with that name", result: { interfaces: [HOST_NIC] } },
  {
    name: "of a NIC with that name outside a sandbox",
    result: { interfaces: [{ ...NIC, sandbox: "" }] },
  },
  {
    name: "equal to the requested MAC",
    result: { interfaces: [{ ...NIC, mac: GUEST_MAC }] },
  },
  { name: "that is invalid", result: { interfaces: [{ ...NIC, mac: "x up" }] } },
  { name: "missing", result: { interfaces: [{ name: "net1", sandbox: "/x" }] } },
  { name: "missing because it has no NICs", result: {} },
  {
    name: "and an address of a different NIC",
    result: { interfaces: [OTHER_NIC], ips: [{ interface: 0, address: "10.0.0.2/24" }] },
  },
])("the MAC is unknown: a result with a MAC $name", ({ result }) => {
  expect(lentBy(result)).toEqual({ name: "net1", addresses: [] });
});

test("leaves a MAC unchanged that was not requested", () => {
  const args = REQUEST.args.slice(0, 1);
  expect(lentBy({ interfaces: [NIC] }, { ...REQUEST, args })).not.toHaveProperty("mac");
});

test("has only a name without a result", () => {
  expect(buildBorrowedNic(REQUEST, undefined)).toEqual({ name: "net1", addresses: [] });
});
