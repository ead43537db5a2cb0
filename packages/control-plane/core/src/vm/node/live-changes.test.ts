// SPDX-License-Identifier: Apache-2.0
// Which steps does virt-handler take for the ifaces of a VM that runs, and which does it not take yet?
import { names } from "@patchbay/api";
import { printPcieTopology } from "@patchbay/api/annotations";
import { parsePciAddress, printNic } from "@patchbay/domain";
import { describe, expect, test } from "vitest";
import type { DeviceFacts } from "../../nics/facts.ts";
import {
  aDomain,
  anIface,
  DEVICE_MAC,
  factsOf,
  IN_POD,
  IN_USE,
  live,
  MAC,
  running,
  listSteps,
  WIRED,
} from "../../testing/node-scene.ts";
import type { NodeAction } from "./node-vm.ts";
import type { UnplugRequest } from "../../nics/node-plan.ts";

function requested(count: number, agoMs: number): UnplugRequest {
  return { count, agoMs, isRefused: false };
}

describe("while the VM runs, an iface", () => {
  test.each([
    { name: "waits for the pod", facts: anIface(), want: [] },
    { name: "waits for CNI", facts: anIface({ attachment: "Requested" }), want: [] },
    {
      name: "is wired and plugged when the pod has its NIC",
      facts: anIface({ attachment: "Attached", links: IN_POD }),
      want: ["wireTap a", "attachDevice a"],
    },
    {
      name: "is not wired before the NIC's addresses are recorded",
      facts: anIface({ attachment: "Attached", links: { ...IN_POD, hasAddresses: true } }),
      want: ["rememberAddresses a"],
    },
    {
      name: "is only wired while its device exists",
      facts: anIface({ attachment: "Attached", links: IN_POD, device: {} }),
      want: ["wireTap a"],
    },
    {
      name: "waits while the pod lacks its NIC",
      facts: anIface({ attachment: "Attached" }),
      want: ["wait a"],
    },
    {
      name: "is plugged when it is wired",
      facts: anIface({ attachment: "Attached", links: WIRED }),
      want: ["attachDevice a"],
    },
    {
      name: "is unchanged when it is ready",
      facts: anIface({
        attachment: "Attached",
        links: IN_USE,
        device: { pciAddress: "0000:01:00.0" },
      }),
      want: [],
    },
    {
      name: "is unplugged when it is absent",
      facts: anIface({ iface: { state: "absent" }, links: IN_USE, device: {} }),
      want: ["detachDevice a"],
    },
    {
      name: "is unplugged when it is no longer in the spec",
      facts: anIface({ iface: null, links: IN_USE, device: {} }),
      want: ["detachDevice a"],
    },
    {
      name: "is unplugged when its tap was recreated under QEMU",
      facts: anIface({ attachment: "Attached", links: WIRED, device: {} }),
      want: ["detachDevice a"],
    },
    {
      name: "loses its links when its device is detached",
      facts: anIface({ iface: null, links: { hasBridge: true } }),
      want: ["unwireTap a"],
    },
    {
      name: "needs no action when it has neither links nor spec",
      facts: anIface({ iface: null }),
      want: [],
    },
  ])("$name", ({ facts, want }) => {
    expect(listSteps(live([facts]))).toEqual(want);
  });

  test("is plugged with the settings of its links and its spec", () => {
    const iface = { model: "e1000e", state: "down", bootOrder: 2, acpiIndex: 7 };
    const facts = anIface({ iface, attachment: "Attached", links: WIRED });
    expect(live([facts])).toEqual([
      {
        kind: "attachDevice",
        iface: "a",
        xml: printNic({
          alias: "ua-a",
          mac: MAC,
          model: "e1000e",
          tapName: "tap0a",
          mtu: 1450,
          linkUp: false,
          pciAddress: { bus: 1, slot: 0, function: 0 },
          queues: 1,
          bootOrder: 2,
          acpiIndex: 7,
        }),
      },
    ]);
  });

  test("with a recorded address gets it again, even if another NIC is plugged first", () => {
    const ifaces = ["a", "b"].map((name) =>
      anIface({ name, attachment: "Attached", links: WIRED }),
    );
    const { vmi } = factsOf(ifaces);
    const topology = { version: 2, interfaces: [{ name: "b", pciAddress: "0000:01:00.0" }] };
    const annotations = { [names.PCIE_TOPOLOGY_ANNOTATION]: printPcieTopology(topology) };
    const actions = live(ifaces, {
      vmi: { ...vmi, metadata: { ...vmi.metadata, annotations } },
    });
    const busOf = (action: NodeAction): string | undefined =>
      "xml" in action ? /bus="([^"]*)"/.exec(action.xml)?.[1] : undefined;
    expect(actions.map(busOf)).toEqual(["0x02", "0x01"]);
  });

  test("waits without a free port, and reports the reason", () => {
    const ifaces = ["a", "b"].map((name) =>
      anIface({ name, attachment: "Attached", links: WIRED }),
    );
    const actions = live(ifaces, { domain: running(aDomain(1)) });
    expect(listSteps(actions)).toEqual(["attachDevice a", "wait b"]);
    expect(actions[1]).toEqual({ kind: "wait", iface: "b", reason: "NoFreePciePort" });
  });

  test("is wired without a free port", () => {
    const ifaces = ["a", "b"].map((name) =>
      anIface({ name, attachment: "Attached", links: IN_POD }),
    );
    const actions = live(ifaces, { domain: running(aDomain(1)) });
    expect(listSteps(actions)).toEqual(["wireTap a", "attachDevice a", "wireTap b"]);
  });

  test("does not get a second port while its device is unplugged and plugged again", () => {
    const ifaces = [
      anIface({ name: "a", attachment: "Attached", links: WIRED, device: {} }),
      anIface({ name: "b", attachment: "Attached", links: WIRED }),
    ];
    const actions = live(ifaces, { domain: running(aDomain(1)) });
    expect(listSteps(actions)).toEqual(["detachDevice a", "attachDevice b"]);
  });
});

describe("unplug requests to a guest are sent", () => {
  const unwanted = anIface({ iface: { state: "absent" }, links: IN_USE, device: {} });
  const replaced = anIface({ attachment: "Attached", links: WIRED, device: {} });

  test.each([
    { name: "by the device's alias", asked: undefined },
    { name: "again when the guest may have missed the request", asked: requested(1, 10_000) },
    { name: "again, at most every minute", asked: requested(9, 60_000) },
  ])("$name", ({ asked: request }) => {
    expect(live([unwanted], { unplugRequests: { a: request } })).toEqual([
      { kind: "detachDevice", iface: "a", alias: "ua-a" },
    ]);
  });

  test.each([
    { name: "and their result is awaited", facts: unwanted, reason: "GuestRefused" },
    { name: "and the new tap waits for their result", facts: replaced, reason: "TapReplaced" },
  ])("$name", ({ facts, reason }) => {
    expect(live([facts], { unplugRequests: { a: requested(2, 9_999) } })).toEqual([
      { kind: "wait", iface: "a", reason, forMs: 1 },
    ]);
  });

  test.each([
    { name: "has a different tap with the same name", facts: replaced, want: "wait a" },
    {
      name: "has no tap",
      facts: anIface({
        attachment: "Attached",
        links: { ...IN_USE, hasTap: false, isTapOpen: false, isWired: false },
        device: {},
      }),
      want: "wireTap a",
    },
    {
      name: "is unplugged and has no tap",
      facts: anIface({
        iface: { state: "absent" },
        links: { hasTap: false, hasBridge: true },
        device: {},
      }),
      want: "wait a",
    },
    {
      name: "is unplugged and whose tap is down",
      facts: anIface({
        iface: { state: "absent" },
        links: { hasTap: true, hasBridge: true },
        device: {},
      }),
      want: "detachDevice a",
    },
    { name: "is unplugged and still has its tap", facts: unwanted, want: "detachDevice a" },
  ])("unless QEMU would abort: a NIC that $name", ({ facts, want }) => {
    const domain = running({ ...aDomain(1), abortsWithoutTap: true });
    const steps = live([facts], { domain });
    expect(listSteps(steps)).toEqual([want]);
    const reasons = steps.flatMap((step) => (step.kind === "wait" ? [step.reason] : []));
    expect(reasons).toEqual(want.startsWith("wait") ? ["TapLost"] : []);
  });

  test("for each device separately", () => {
    const other = anIface({ name: "b", iface: null, links: IN_USE, device: {} });
    expect(listSteps(live([unwanted, other], { unplugRequests: { a: requested(1, 0) } }))).toEqual([
      "wait a",
      "detachDevice b",
    ]);
  });
});

describe("the link state of a plugged NIC", () => {
  const pciAddress = "0000:03:00.0";
  const device = { queues: 4, pciAddress };
  const ready = (state: string, linkUp: boolean, more: Partial<DeviceFacts> = device) =>
    anIface({
      iface: { state },
      attachment: "Attached",
      links: IN_USE,
      device: { ...more, linkUp },
    });

  test.each([
    { name: "is set to down", state: "down", linkUp: true },
    { name: "is set to up", state: "up", linkUp: false },
  ])("$name, and nothing else changes", ({ state, linkUp }) => {
    const address = parsePciAddress(pciAddress);
    const xml = printNic({
      alias: "ua-a",
      mac: DEVICE_MAC,
      model: "virtio",
      tapName: "tap0a",
      mtu: 1450,
      linkUp: !linkUp,
      pciAddress: address ?? { bus: 0, slot: 0, function: 0 },
      queues: 4,
    });
    expect(live([ready(state, linkUp)])).toEqual([{ kind: "setLink", iface: "a", xml }]);
  });

  test.each([
    { name: "stays down", facts: ready("down", false) },
    { name: "stays up", facts: ready("up", true) },
    { name: "waits until libvirt has assigned the PCI address", facts: ready("down", true, {}) },
  ])("$name", ({ facts }) => {
    expect(live([facts])).toEqual([]);
  });
});
