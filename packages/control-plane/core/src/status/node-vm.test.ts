// SPDX-License-Identifier: Apache-2.0
// What virt-handler says of a VMI as a whole, and of its NICs while libvirt does not answer.
import { networkConfigOf, type IfaceStatus, type VmiPhase } from "@patchbay/api";
import { aVmi } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import { AppError } from "@patchbay/base";
import { NO_LINKS } from "../nics/facts.ts";
import type { DomainSnapshot, NodeVmFacts } from "../vm/node/node-vm.ts";
import { anIface, IN_USE } from "../testing/node-scene.ts";
import { buildNodeVmStatus, buildGuestLinkStatuses, countUnlistedGuestLinks } from "./node-vm.ts";
import { buildUnreachableIfaces } from "../nics/status/unreachable.ts";
import type { LinkView } from "../guest/agent-view.ts";

const NOW = "2026-01-01T01:00:00.000Z";
const PORT = { model: "pcie-root-port", hotplug: true };

function aDomain(more: Partial<DomainSnapshot> = {}): DomainSnapshot {
  return {
    running: true,
    isPaused: false,
    crashed: false,
    facts: {
      family: "q35",
      nics: [],
      controllers: [
        { ...PORT, index: 1 },
        { ...PORT, index: 2 },
      ],
      pciAddresses: [{ bus: 1, slot: 0, function: 0 }],
      devices: [],
      vcpus: 1,
      sharesMemory: true,
      agentConnected: false,
      paths: [],
    },
    ...more,
  };
}

function facts(more: Partial<NodeVmFacts> = {}): NodeVmFacts {
  return {
    vmi: aVmi(),
    role: "owner",
    ifaces: [],
    domain: aDomain(),
    useEmulation: false,
    network: networkConfigOf(undefined),
    uuid: "6f1c1a52-7f0c-4c0e-8d36-0a2b1d5b7c11",
    unplugRequests: {},
    ...more,
  };
}

describe("links that the guest created", () => {
  const link = { mac: "06:00:00:00:00:01", name: "docker0" };
  const unknown = { value: undefined };

  test("are listed after the interfaces, at most ten; the rest is counted", () => {
    const guestLinks = Array.from({ length: 12 }, () => ({
      ...link,
      ipv4: unknown,
      ipv6: unknown,
    }));
    const iface = { name: "one", iface: { name: "one", bridge: {} }, podInterfaceName: "pod1" };
    const ifaces = [{ ...iface, binding: { kind: "bridge" } as const, links: NO_LINKS }];
    const status = buildNodeVmStatus(facts({ ifaces, guestLinks }), {
      blockedReasons: {},
      now: NOW,
    });
    expect(status.interfaces?.map(({ name }) => name)).toEqual([
      "one",
      ...Array<undefined>(10).fill(undefined),
    ]);
    expect(status.unlistedGuestInterfaces).toBe(2);
  });

  test("have no count while all are listed", () => {
    expect(buildNodeVmStatus(facts(), { blockedReasons: {}, now: NOW })).not.toHaveProperty(
      "unlistedGuestInterfaces",
    );
  });
});

describe("the phase of a VMI in its node's report", () => {
  type Row = {
    readonly before: VmiPhase;
    readonly domain: DomainSnapshot | undefined;
    readonly want: VmiPhase | undefined;
  };
  const off = aDomain({ running: false });
  test.each<Row>([
    { before: "Scheduling", domain: aDomain(), want: undefined },
    { before: "Scheduled", domain: undefined, want: undefined },
    { before: "Scheduled", domain: off, want: undefined },
    { before: "Scheduled", domain: aDomain(), want: "Running" },
    { before: "Running", domain: aDomain(), want: undefined },
    { before: "Running", domain: undefined, want: undefined },
    { before: "Running", domain: off, want: "Succeeded" },
    { before: "Running", domain: { ...off, crashed: true }, want: "Failed" },
    { before: "Failed", domain: off, want: undefined },
  ])("after $before, domain running $domain.running: $want", ({ before, domain, want }) => {
    const vmi = aVmi({ status: { phase: before } });
    expect(buildNodeVmStatus(facts({ vmi, domain }), { blockedReasons: {}, now: NOW }).phase).toBe(
      want,
    );
  });
});

describe("a paused guest", () => {
  const paused = { type: "Paused", status: "True", lastTransitionTime: NOW } as const;

  test.each([
    {
      name: "is paused by a user",
      domain: aDomain({ isPaused: true }),
      want: [{ ...paused, reason: "PausedByUser", message: "VMI was paused by user" }],
    },
    {
      name: "is paused by a disk error",
      domain: aDomain({ isPaused: true, hasDiskError: true }),
      want: [
        {
          ...paused,
          reason: "PausedIOError",
          message: "VMI was paused, low-level IO error detected",
        },
      ],
    },
    { name: "has no Paused condition while it runs", domain: aDomain(), want: [] },
    {
      name: "has no Paused condition after its end",
      domain: aDomain({ isPaused: true, running: false }),
      want: [],
    },
  ])("$name", ({ domain, want }) => {
    const stored = [{ type: "Paused", status: "False" }] as const;
    const vmi = aVmi({ status: { conditions: [...stored] } });
    const status = buildNodeVmStatus(facts({ vmi, domain }), { blockedReasons: {}, now: NOW });
    expect(status.conditions).toEqual(want);
  });
});

describe("the guest's agent", () => {
  const READY = { type: "Ready", status: "True", lastTransitionTime: "then" } as const;
  const REPORTED = { type: "AgentConnected", status: "True", lastTransitionTime: "then" } as const;
  const listening = aDomain();
  const connected = { ...listening, facts: { ...listening.facts, agentConnected: true } };

  test.each([
    {
      name: "that has connected is listed after other conditions",
      stored: [READY],
      given: { domain: connected },
      want: [READY, { ...REPORTED, lastTransitionTime: NOW }],
    },
    {
      name: "that is connected is retained unchanged",
      stored: [REPORTED, READY],
      given: { domain: connected },
      want: [READY, REPORTED],
    },
    {
      name: "that is disconnected briefly is still connected",
      stored: [READY, REPORTED],
      given: {},
      want: [READY, REPORTED],
    },
    {
      name: "that does not respond is not connected",
      stored: [READY, REPORTED],
      given: { silentSince: NOW },
      want: [READY],
    },
    {
      name: "of an ended guest is not connected",
      stored: [READY, REPORTED],
      given: { domain: aDomain({ running: false }) },
      want: [READY],
    },
    { name: "that never connected is not connected", stored: [READY], given: {}, want: [READY] },
  ])("$name", ({ stored, given: input, want }) => {
    const vmi = aVmi({ status: { conditions: stored } });
    const status = buildNodeVmStatus(facts({ vmi, ...input }), { blockedReasons: {}, now: NOW });
    expect(status.conditions).toEqual(want);
  });

  test("reports the guest OS and retains it", () => {
    const report = { blockedReasons: {}, now: NOW };
    const guestSystem = { id: "debian", kernelRelease: "6.1.0" };
    expect(buildNodeVmStatus(facts({ guestSystem }), report).guestOSInfo).toEqual(guestSystem);
    expect(buildNodeVmStatus(facts({ guestSystem: {} }), report)).not.toHaveProperty("guestOSInfo");
    expect(buildNodeVmStatus(facts(), report)).not.toHaveProperty("guestOSInfo");
  });
});

describe("the ports of a VMI", () => {
  test("are those of the running domain", () => {
    expect(buildNodeVmStatus(facts(), { blockedReasons: {}, now: NOW })).toStrictEqual({
      interfaces: [],
      conditions: [],
      pciePorts: { total: 2, free: 1 },
    });
  });

  test.each([{ domain: undefined }, { domain: aDomain({ running: false }) }])(
    "are omitted without a running domain: $domain.running",
    ({ domain }) => {
      const status = buildNodeVmStatus(facts({ domain }), { blockedReasons: {}, now: NOW });
      expect(status).toStrictEqual({ interfaces: [], conditions: [] });
    },
  );

  test("are counted from the domain, not from the last report", () => {
    const names = ["a", "b", "c"];
    const vmi = aVmi({
      nics: names.map((name) => ({ name })),
      status: {
        pciePorts: { total: 9, free: 9 },
        interfaces: [{ name: "b", pciAddress: "0000:02:00.0" }],
      },
    });
    const ifaces = names.map((name) => ({
      name,
      podInterfaceName: name,
      iface: { name, bridge: {} },
      binding: { kind: "bridge" as const },
      links: NO_LINKS,
      ...(name === "a"
        ? {
            device: {
              alias: "ua-a",
              mac: "m",
              linkUp: true,
              queues: 1,
              pciAddress: "0000:01:00.0",
            },
          }
        : {}),
    }));
    const { interfaces = [] } = buildNodeVmStatus(facts({ vmi, ifaces }), {
      blockedReasons: {},
      now: NOW,
    });
    expect(interfaces.map(({ name, hotplug }) => [name, hotplug?.reason])).toEqual([
      ["a", undefined],
      ["b", undefined],
      ["c", "NoFreePciePort"],
    ]);
  });
});

test("reports a partly served NIC as Ready, with the omissions", () => {
  const iface = anIface({ attachment: "Attached", links: IN_USE, device: {} });
  const { podInterfaceName } = iface;
  const addresses = ["10.9.1.5/24", "10.9.2.5/24"];
  const remembered = { podInterfaceName, index: 3, addresses, routes: [] };
  const ifaces = [{ ...iface, remembered }];
  const { interfaces = [] } = buildNodeVmStatus(facts({ ifaces }), {
    blockedReasons: {},
    now: NOW,
  });
  expect(interfaces[0]?.hotplug).toMatchObject({
    phase: "Ready",
    reason: "AddressesPartlyServed",
    message: expect.stringContaining("10.9.2.5/24 is not served") as unknown,
  });
});

test("reports the VMI's blocked reason with the current time", () => {
  const guest = { reason: "GuestNotStarted", message: "no kernel", attempts: 1 };
  const { blockedReason: blockedReason } = buildNodeVmStatus(facts(), {
    blockedReasons: {},
    now: NOW,
    guest,
  });
  expect(blockedReason).toEqual({ ...guest, since: NOW });
});

describe("while libvirt does not respond", () => {
  const error = new AppError("LIBVIRT_TIMED_OUT", {});
  type Hotplug = NonNullable<IfaceStatus["hotplug"]>;

  function statusOf(
    phase: Hotplug["phase"],
    more: Partial<IfaceStatus> = {},
    state = "up",
  ): IfaceStatus | undefined {
    const hotplug = { type: "Plug", phase, attempts: 3 } as const;
    const attachment = { name: "one", podInterfaceName: "pod1", state: "Attached" } as const;
    const vmi = aVmi({
      nics: [{ name: "one", state }],
      status: { interfaces: [{ name: "one", hotplug, ...more }], attachments: [attachment] },
    });
    return buildUnreachableIfaces(vmi, error, { now: NOW, bindings: {} })[0];
  }
  const device = { mac: "02:00:00:00:00:01", queueCount: 2, linkState: "up" };
  const held = { reason: "LibvirtTimedOut", attempts: 3 };

  test.each([
    { name: "bridge and tap are awaited", given: ["Wiring"], phase: "Wiring", why: held },
    { name: "a device is awaited", given: ["Attaching"], phase: "Attaching", why: held },
    {
      name: "a device is being detached",
      given: ["Detaching", device, "absent"],
      phase: "Detaching",
      why: held,
    },
    {
      name: "bridge and tap are being deleted",
      given: ["Unwiring", {}, "absent"],
      phase: "Unwiring",
      why: held,
    },
    {
      name: "the attachment is being removed",
      given: ["PodDetaching", {}, "absent"],
      phase: "PodDetaching",
      why: {},
    },
    { name: "a NIC retains its phase", given: ["Ready", device], phase: "Ready", why: {} },
  ] as const)("$name: $phase", ({ given: input, phase, why }) => {
    const [reported, more, state] = input;
    const status = statusOf(reported, more, state);
    const { reason, attempts } = status?.hotplug ?? {};
    expect(status?.hotplug?.phase).toBe(phase);
    expect({ reason, attempts }).toEqual({ reason: undefined, attempts: undefined, ...why });
  });

  test("retains the last report of a device", () => {
    const addressInfo = { source: "guest-agent", since: NOW, silentSince: NOW } as const;
    const more = {
      pciAddress: "0000:02:00.0",
      mtu: 1450,
      interfaceName: "eth1",
      infoSource: "domain, guest-agent, multus-status",
      ipAddress: "10.0.0.1",
      ipAddresses: ["10.0.0.1"],
      addressInfo,
    };
    expect(statusOf("Ready", { ...device, ...more })).toMatchObject({ ...device, ...more });
    expect(statusOf("Ready", { ...device, linkState: "down" })).toMatchObject({
      linkState: "down",
    });
    const known = Object.keys(statusOf("Ready", device) ?? {});
    expect(known).not.toContain("pciAddress");
    expect(known).not.toContain("interfaceName");
    expect(known).not.toContain("addressInfo");
  });

  test("retains the last report of the guest's own links", () => {
    const own = { infoSource: "guest-agent", interfaceName: "docker0", mac: "06:00:00:00:00:01" };
    const vmi = aVmi({ status: { interfaces: [own] } });
    expect(buildUnreachableIfaces(vmi, error, { now: NOW, bindings: {} })).toEqual([own]);
  });

  test("treats an unknown error as the launcher's, and does not count steps that were not attempted", () => {
    const vmi = aVmi({
      nics: [{ name: "one" }],
      status: { attachments: [{ name: "one", podInterfaceName: "pod1", state: "Attached" }] },
    });
    const [status] = buildUnreachableIfaces(vmi, new Error("gone"), {
      now: NOW,
      bindings: {},
    });
    expect(status?.hotplug).toEqual({
      type: "Plug",
      phase: "Wiring",
      reason: "LauncherUnreachable",
      message: "gone",
      attempts: 0,
      since: NOW,
    });
  });
});

function aLink(index: number): LinkView {
  return {
    mac: `06:00:00:00:00:${String(index)}`,
    name: `veth${String(index)}`,
    ipv4: { value: ["172.17.0.1"] },
    ipv6: { value: undefined },
  };
}

const MANY = Array.from({ length: 2_000 }, (_, index) => aLink(index));

test("reports a guest's own link without a name", () => {
  const tunnel = { name: "tun0", ipv4: { value: [] }, ipv6: { value: ["fd00::1", "fd00::2"] } };
  expect(buildGuestLinkStatuses([aLink(1), tunnel])).toEqual([
    {
      infoSource: "guest-agent",
      ipAddress: "172.17.0.1",
      ipAddresses: ["172.17.0.1"],
      mac: "06:00:00:00:00:1",
      interfaceName: "veth1",
    },
    {
      infoSource: "guest-agent",
      ipAddress: "fd00::1",
      ipAddresses: ["fd00::1", "fd00::2"],
      interfaceName: "tun0",
    },
  ]);
});

test("lists ten of 2,000 and counts the rest", () => {
  expect(buildGuestLinkStatuses(MANY).map(({ interfaceName }) => interfaceName)).toEqual(
    MANY.slice(0, 10).map(({ name }) => name),
  );
  expect(countUnlistedGuestLinks(MANY)).toEqual({ unlistedGuestInterfaces: 1_990 });
  expect(countUnlistedGuestLinks(MANY.slice(0, 10))).toEqual({});
});
