// SPDX-License-Identifier: Apache-2.0
// A NIC whose tap the network's plugin made is plugged and unplugged without anything made or removed for it.
import { printNic } from "@patchbay/domain";
import { describe, expect, test } from "vitest";
import type { LinkFacts } from "../../nics/facts.ts";
import { anIface, IN_POD, live, MAC, plan, listSteps } from "../../testing/node-scene.ts";

const iface = { binding: { name: "own" } };
const binding = { kind: "tap" } as const;
const FOUND: Partial<LinkFacts> = { ...IN_POD, tapName: "macvtap0" };
const tapped = (links: Partial<LinkFacts>) =>
  anIface({ iface, binding, attachment: "Attached", links: { ...FOUND, ...links } });

test("configures a tap that is down, by its own name", () => {
  const wiring = { kind: "tap", podInterfaceName: "pod0a", tapName: "macvtap0", mac: MAC };
  const action = { kind: "wireTap", iface: "a", wiring: { ...wiring, mtu: 1450 } };
  const [first, ...rest] = live([tapped({})]);
  expect(first).toEqual(action);
  expect(listSteps(rest)).toEqual(["attachDevice a"]);
  expect(plan([tapped({})])).toEqual([action]);
});

describe("opens a tap that is up", () => {
  test.each([
    { tapQueues: undefined, queues: 1 },
    { tapQueues: "one", queues: 1 },
    { tapQueues: "many", queues: 2 },
  ] as const)("with as many queues as it supports: $tapQueues", ({ tapQueues, queues }) => {
    const links = { isWired: true, ...(tapQueues === undefined ? {} : { tapQueues }) };
    const pciAddress = { bus: 1, slot: 0, function: 0 };
    const nic = { alias: "ua-a", mac: MAC, model: "virtio", mtu: 1450, linkUp: true } as const;
    const xml = printNic({ ...nic, tapName: "macvtap0", pciAddress, queues });
    expect(live([tapped(links)])).toEqual([{ kind: "attachDevice", iface: "a", xml }]);
  });
});

test("unplugging a NIC leaves its tap to the plugin", () => {
  const absent = { ...iface, state: "absent" };
  const links = { ...FOUND, isWired: true };
  const deleting = anIface({ iface: absent, binding, attachment: "Attached", links, device: {} });
  expect(listSteps(live([deleting]))).toEqual(["detachDevice a"]);
  const left = anIface({ iface: absent, binding, attachment: "Attached", links });
  expect(live([left])).toEqual([]);
});
