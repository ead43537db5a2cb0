// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { NO_LINKS, type IfaceFacts } from "../iface/facts.ts";
import { ifaceStatuses } from "./ifaces.ts";

test("a NIC that is there says nothing of what once held it up", () => {
  const reported = {
    name: "one",
    hotplug: { type: "Plug", phase: "Attaching", reason: "NoFreePciePort", attempts: 3 },
  } as const;
  const facts: IfaceFacts = {
    name: "one",
    podInterfaceName: "pod1",
    iface: { name: "one", bridge: {} },
    attachment: {
      name: "one",
      podInterfaceName: "pod1",
      state: "Failed",
      reason: "CniFailed",
      message: "no",
    },
    links: { ...NO_LINKS, podInterface: true, bridge: true, tap: true, wired: true, tapOpen: true },
    device: { alias: "ua-one", mac: "02:00:00:00:00:01", linkUp: true, queues: 1 },
    reported,
  };
  const portless = new Map([["one", { reason: "NoFreePciePort", message: "full" } as const]]);
  const [status] = ifaceStatuses({ ifaces: [facts], hindrances: {}, portless, now: "now" });
  expect(status?.hotplug).toEqual({ type: "Plug", phase: "Ready", since: "now" });
});
