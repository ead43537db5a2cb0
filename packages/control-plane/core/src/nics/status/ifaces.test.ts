// SPDX-License-Identifier: Apache-2.0
// What is reported of each iface, from facts as the loop has them.
import type { Attachment, IfaceStatus } from "@patchbay/api";
import { describe, expect, test } from "vitest";
import { resolveBinding } from "../bindings/resolve-binding.ts";
import { NO_LINKS, type DeviceFacts, type IfaceFacts } from "../facts.ts";
import { buildIfaceStatuses, type IfaceReport, isTransientChange } from "../../status/node-vm.ts";

const NOW = "2026-01-01T01:00:00.000Z";
const EARLIER = "2026-01-01T00:00:00.000Z";
const ATTACHED: Attachment = { name: "one", podInterfaceName: "pod1", state: "Attached" };
const FAILED: Attachment = { ...ATTACHED, state: "Failed", reason: "CniFailed", message: "no" };
const WIRED = {
  hasPodInterface: true,
  hasBridge: true,
  hasTap: true,
  isWired: true,
  isTapOpen: true,
  mtu: 1500,
};
const DEVICE: DeviceFacts = { alias: "ua-one", mac: "02:00:00:00:00:01", linkUp: true, queues: 1 };
const FULL = { reason: "NoFreePciePort", message: "full" } as const;

const BARE: IfaceFacts = {
  name: "one",
  podInterfaceName: "pod1",
  binding: { kind: "bridge" },
  links: NO_LINKS,
};

function facts(more: Partial<IfaceFacts> = {}): IfaceFacts {
  const iface = { name: "one", bridge: {} };
  return { ...BARE, iface, ...more };
}

function statusOf(
  iface: IfaceFacts,
  more: Partial<Pick<IfaceReport, "blockedReasons" | "portless">> = {},
): IfaceStatus | undefined {
  return buildIfaceStatuses({
    ifaces: [iface],
    blockedReasons: {},
    portless: new Map(),
    now: NOW,
    ...more,
  })[0];
}

describe("the status of an iface", () => {
  test("is empty for an unknown interface", () => {
    expect(statusOf(BARE)).toBeUndefined();
  });

  test("contains only its name and phase while it is only declared", () => {
    expect(statusOf(facts())).toStrictEqual({
      name: "one",
      podInterfaceName: "pod1",
      infoSource: "",
      hotplug: { type: "Plug", phase: "Pending", since: NOW },
    });
  });

  test("combines reports of pod, domain and guest", () => {
    const attachment = { ...ATTACHED, ips: ["10.0.0.1", "fd00::1"] };
    const guest = { name: "eth1", ipv4: ["10.0.0.9"] };
    const device = { ...DEVICE, queues: 4, mtu: 1450, pciAddress: "0000:02:00.0", guest };
    expect(statusOf(facts({ attachment, device, links: { ...WIRED, mtu: 1450 } }))).toStrictEqual({
      name: "one",
      podInterfaceName: "pod1",
      infoSource: "domain, guest-agent, multus-status",
      ipAddress: "10.0.0.9",
      ipAddresses: ["10.0.0.9", "fd00::1"],
      addressInfo: { source: "pod, guest-agent", since: NOW },
      mac: "02:00:00:00:00:01",
      queueCount: 4,
      linkState: "up",
      mtu: 1450,
      pciAddress: "0000:02:00.0",
      interfaceName: "eth1",
      hotplug: { type: "Plug", phase: "Ready", since: NOW },
    });
  });

  test("names learned addresses as the last source", () => {
    const learned = facts({ attachment: ATTACHED, device: DEVICE, links: WIRED });
    expect(statusOf({ ...learned, learned: ["10.0.0.1"] })).toMatchObject({
      infoSource: "domain, multus-status, learned",
      ipAddress: "10.0.0.1",
      addressInfo: { source: "learned", since: NOW },
    });
  });

  test("contains a limit once it is applied", () => {
    const bandwidth = { inbound: { average: "1M" } };
    const iface = { name: "one", bridge: {}, bandwidth };
    const limited = { iface, device: DEVICE, links: WIRED };
    expect(statusOf(facts(limited))?.bandwidth).toEqual(bandwidth);
    const waiting = { ...limited, links: { ...WIRED, isWired: false } };
    expect(statusOf(facts(waiting))).not.toHaveProperty("bandwidth");
  });

  test("has no address if the attachment has none", () => {
    const status = statusOf(facts({ attachment: { ...ATTACHED, ips: [] } }));
    expect(Object.keys(status ?? {})).toEqual([
      "name",
      "podInterfaceName",
      "infoSource",
      "hotplug",
    ]);
    expect(status?.infoSource).toBe("multus-status");
  });

  test.each<readonly [told: string | undefined, then: string]>([
    ["domain, multus-status", "multus-status"],
    ["domain", ""],
    [undefined, ""],
  ])("with source %j has source %j while the attachment is removed", (told, then) => {
    const attachment: Attachment = { ...ATTACHED, state: "Removing" };
    const reported = { name: "one", ...(told !== undefined && { infoSource: told }) };
    expect(statusOf(facts({ attachment, reported }))?.infoSource).toBe(then);
  });

  test("contains a device whose link is down, without unknown values", () => {
    const status = statusOf(facts({ device: { ...DEVICE, linkUp: false }, links: WIRED }));
    expect(status).toStrictEqual({
      name: "one",
      podInterfaceName: "pod1",
      infoSource: "domain",
      mac: "02:00:00:00:00:01",
      queueCount: 1,
      linkState: "down",
      hotplug: { type: "Plug", phase: "Ready", since: NOW },
    });
  });
});

test.each<{ name: string; mtu?: number; device: number; reason?: string; says?: string }>([
  { name: "equal MTUs", device: 1500 },
  { name: "an MTU of its own", mtu: 1400, device: 1400 },
  { name: "a lowered MTU", mtu: 1400, device: 1500, reason: "MtuDiffers", says: "frames to the" },
  { name: "another network MTU", device: 1600, reason: "MtuDiffers", says: "frames from the" },
  {
    name: "an MTU above the pod NIC's",
    mtu: 9000,
    device: 1500,
    reason: "MtuReduced",
    says: "1500",
  },
  { name: "no MTU in the device", mtu: 9000, device: 0, reason: "MtuReduced", says: "9000" },
])("an iface with $name has reason $reason", ({ mtu, device: deviceMtu, reason, says = "" }) => {
  const device = { ...DEVICE, ...(deviceMtu === 0 ? {} : { mtu: deviceMtu }) };
  const iface = { name: "one", bridge: {}, ...(mtu === undefined ? {} : { mtu }) };
  const { hotplug } = statusOf(facts({ iface, attachment: ATTACHED, device, links: WIRED })) ?? {};
  expect(hotplug?.phase).toBe("Ready");
  expect(hotplug?.reason).toBe(reason);
  expect(hotplug?.message ?? "").toContain(says);
});

describe("the pod's network", () => {
  const network = { name: "one", pod: {} };

  test("is not reported by Multus", () => {
    const input = facts({ network, attachment: ATTACHED, device: DEVICE, links: WIRED });
    expect(statusOf(input)?.infoSource).toBe("domain");
    expect(
      statusOf({ ...input, network: { name: "one", multus: { networkName: "blue" } } })?.infoSource,
    ).toBe("domain, multus-status");
  });

  test("is listed first, and other networks retain their order", () => {
    const names = ["b", "pod", "a"];
    const ifaces = names.map((name) => ({
      ...facts({ iface: { name, bridge: {} } }),
      name,
      network: name === "pod" ? { name, pod: {} } : { name, multus: { networkName: "blue" } },
    }));
    const statuses = buildIfaceStatuses({
      ifaces,
      blockedReasons: {},
      portless: new Map(),
      now: NOW,
    });
    expect(statuses.map(({ name }) => name)).toEqual(["pod", "b", "a"]);
  });
});

describe("the start time of a phase", () => {
  test.each([
    { reported: { phase: "Pending", since: EARLIER }, since: EARLIER },
    { reported: { phase: "Pending" }, since: NOW },
    { reported: { phase: "Ready", since: EARLIER }, since: NOW },
  ] as const)("after $reported is $since", ({ reported, since }) => {
    const hotplug = { type: "Plug", ...reported } as const;
    expect(statusOf(facts({ reported: { name: "one", hotplug } }))?.hotplug?.since).toBe(since);
  });
});

describe("the reason why a plug waits", () => {
  const portless = new Map([["one", FULL]]);
  const blockedReason = { reason: "WiringFailed", message: "no", attempts: 3 };
  const field = { reason: "BindingNotSupported", message: /^sriov: is not supported yet/ };

  test.each([
    { name: "is unset by default", given: facts(), want: undefined },
    {
      name: "is the node's failure",
      given: facts(),
      blockedReasons: { one: blockedReason },
      want: blockedReason,
    },
    {
      name: "is unset for another iface's failure",
      given: facts(),
      blockedReasons: { two: blockedReason },
      want: undefined,
    },
    { name: "is a missing port", given: facts(), portless, want: { ...FULL, attempts: 0 } },
    {
      name: "is the pod's failure, before a missing port",
      given: facts({ attachment: FAILED }),
      portless,
      want: { reason: "CniFailed", message: "no" },
    },
    {
      name: "is the pod's failure without a message",
      given: facts({ attachment: { ...ATTACHED, state: "Failed" } }),
      want: { reason: "CniFailed", message: "" },
    },
    {
      name: "is unset while the attachment is requested",
      given: facts({ attachment: { ...FAILED, state: "Requested" } }),
      want: undefined,
    },
    {
      name: "is the node's failure, before all others",
      given: facts({ attachment: FAILED }),
      blockedReasons: { one: blockedReason },
      portless,
      want: blockedReason,
    },
  ])(
    "$name",
    ({
      given: input,
      blockedReasons: blockedReasons = {},
      portless: full = new Map(),
      want = {},
    }) => {
      const { type, phase, since, ...why } =
        statusOf(input, { blockedReasons, portless: full })?.hotplug ?? {};
      expect([type, since, why]).toEqual(["Plug", NOW, want]);
      expect(phase).toBe(input.attachment === undefined ? "Pending" : "PodAttaching");
    },
  );

  test("is an unsupported field, before the pod and a port", () => {
    const iface = { name: "one", sriov: {} };
    const binding = resolveBinding(iface, undefined, {});
    const status = statusOf(facts({ iface, binding, attachment: FAILED }), { portless });
    expect(status?.hotplug).toMatchObject({ reason: field.reason, attempts: 0 });
    expect(status?.hotplug?.message).toMatch(field.message);
  });
});

describe("a NIC's past blocked reason is cleared", () => {
  const reported = {
    name: "one",
    hotplug: { type: "Plug", phase: "Attaching", reason: "NoFreePciePort", attempts: 3 },
  } as const;
  const portless = new Map([["one", FULL]]);

  test("when it is plugged", () => {
    const there = facts({ attachment: FAILED, links: WIRED, device: DEVICE, reported });
    expect(statusOf(there, { portless })?.hotplug).toEqual({
      type: "Plug",
      phase: "Ready",
      since: NOW,
    });
  });

  test("when it is unplugged", () => {
    const iface = { name: "one", bridge: {}, state: "absent" };
    const deleting = facts({ iface, attachment: FAILED, links: WIRED, device: DEVICE, reported });
    expect(statusOf(deleting, { portless })?.hotplug).toEqual({
      type: "Unplug",
      phase: "Detaching",
      since: NOW,
    });
  });
});

type Hotplug = NonNullable<IfaceStatus["hotplug"]>;

function at(
  phase: Hotplug["phase"],
  change: Partial<Hotplug> = {},
  fields: Partial<IfaceStatus> = {},
): IfaceStatus {
  const type = phase === "Detaching" ? "Unplug" : "Plug";
  return { name: "a", mac: "m", ...fields, hotplug: { type, phase, since: "now", ...change } };
}

const READY = at("Ready");
const REQUESTED = { reason: "WaitingForGuest", attempts: 1 };

describe("a transient change of an iface", () => {
  test.each<{ name: string; before?: IfaceStatus; after?: IfaceStatus; want: boolean }>([
    { name: "waits for its pod", after: at("Pending"), want: true },
    { name: "continues to wait", before: at("Pending"), after: at("PodAttaching"), want: true },
    {
      name: "not with a reason to wait",
      after: at("Pending", { reason: "NetworkNotFound" }),
      want: false,
    },
    { name: "not from ready to waiting", before: READY, after: at("Pending"), want: false },
    { name: "not to ready", before: at("Pending"), after: READY, want: false },
    { name: "not if it is ready at once", after: READY, want: false },
    {
      name: "an unplug request to its guest",
      before: READY,
      after: at("Detaching", REQUESTED),
      want: true,
    },
    { name: "a pending unplug request", before: READY, after: at("Detaching"), want: true },
    {
      name: "not a repeated request to its guest",
      before: READY,
      after: at("Detaching", { ...REQUESTED, attempts: 2 }),
      want: false,
    },
    {
      name: "not a refusal by its guest",
      before: READY,
      after: at("Detaching", { reason: "GuestRefused", attempts: 1 }),
      want: false,
    },
    {
      name: "not a request together with another change",
      before: READY,
      after: at("Detaching", REQUESTED, { mac: "other" }),
      want: false,
    },
    {
      name: "not the first request after a blocked one",
      before: at("Detaching", { reason: "DomainBusy" }),
      after: at("Detaching", REQUESTED),
      want: false,
    },
    { name: "not its removal", before: READY, want: false },
    { name: "no change at all", before: READY, after: READY, want: true },
  ])("$name", ({ before, after, want }) => {
    const others = [{ name: "b" }, { mac: "guest's own" }];
    const list = (status: IfaceStatus | undefined): IfaceStatus[] => [
      ...others,
      ...(status === undefined ? [] : [status]),
    ];
    expect(isTransientChange(list(before), list(after))).toBe(want);
  });
});
