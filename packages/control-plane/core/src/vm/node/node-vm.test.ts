// SPDX-License-Identifier: Apache-2.0
// When is a VM started, with which NICs, and what is left to do where it does not run?
import { names, type IfaceStatus, type VirtualMachineInstance } from "@patchbay/api";
import { parseDomain } from "@patchbay/domain/parse";
import { aVmi } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import {
  anIface,
  factsOf,
  IN_POD,
  IN_USE,
  MAC,
  plan,
  running,
  listSteps,
  WIRED,
} from "../../testing/node-scene.ts";

import {
  mustReportFirst,
  findDrift,
  type DomainSnapshot,
  type NodeAction,
  type NodeVmFacts,
} from "./node-vm.ts";
import { NO_LINKS, type IfaceFacts } from "../../nics/facts.ts";

/** Aliases of the NICs in the domain that is defined. */
function nicsOf(actions: readonly NodeAction[]): readonly string[] {
  const [definition] = actions.filter((action) => action.kind === "defineDomain");
  const parsed = parseDomain(definition?.xml ?? "");
  return parsed.ok ? parsed.domain.nics.map(({ alias }) => alias) : ["not a domain"];
}

const START = ["defineDomain", "startDomain"];

describe("a VM is started", () => {
  test.each([
    { name: "without NICs", ifaces: [], want: [] },
    {
      name: "with the wired NICs in the order of the spec",
      ifaces: [
        anIface({ name: "b", attachment: "Attached", links: WIRED }),
        anIface({ name: "a", attachment: "Attached", links: WIRED }),
      ],
      want: ["ua-b", "ua-a"],
    },
    {
      name: "without a NIC that failed in the pod, which is plugged later",
      ifaces: [anIface({ attachment: "Failed" })],
      want: [],
    },
    {
      name: "without a NIC whose link is missing in the pod",
      ifaces: [anIface({ attachment: "Attached", links: { ...WIRED, hasPodInterface: false } })],
      want: [],
    },
    {
      name: "without an absent NIC, even if the pod has it",
      ifaces: [anIface({ iface: { state: "absent" }, attachment: "Attached", links: IN_POD })],
      want: [],
    },
    {
      name: "without waiting for a NIC that is no longer in the spec",
      ifaces: [anIface({ iface: null, attachment: "Removing" })],
      want: [],
    },
  ])("$name", ({ ifaces, want }) => {
    const actions = plan(ifaces);
    expect(listSteps(actions)).toEqual(START);
    expect(nicsOf(actions)).toEqual(want);
  });

  test("and stays paused if its specification requests it", () => {
    const vmi = aVmi();
    const paused = { ...vmi, spec: { ...vmi.spec, startStrategy: "Paused" } };
    expect(plan([], { vmi: paused }).at(-1)).toEqual({ kind: "startDomain", paused: true });
    expect(plan([]).at(-1)).toEqual({ kind: "startDomain" });
  });

  test("again if libvirt has its domain and the domain does not run", () => {
    expect(listSteps(plan([], { domain: { ...running(), running: false } }))).toEqual(START);
  });

  test("after its taps are created, each with as many queues as its NIC", () => {
    const ifaces = [
      anIface({ name: "a", attachment: "Attached", links: WIRED }),
      anIface({ name: "b", attachment: "Attached", links: IN_POD }),
    ];
    const { vmi } = factsOf(ifaces);
    const devices = { ...vmi.spec.domain.devices, networkInterfaceMultiqueue: true };
    const domain = { ...vmi.spec.domain, cpu: { cores: 3 }, devices };
    expect(plan(ifaces, { vmi: { ...vmi, spec: { ...vmi.spec, domain } } })).toEqual([
      {
        kind: "wireTap",
        iface: "b",
        wiring: {
          kind: "bridge",
          podInterfaceName: "pod0b",
          bridgeName: "k6t-0b",
          tapName: "tap0b",
          mac: MAC,
          mtu: 1450,
          owner: names.LAUNCHER_UID,
          queues: 3,
        },
      },
    ]);
  });
});

describe("a VM is not started", () => {
  const deleted: VirtualMachineInstance = {
    ...aVmi(),
    metadata: { ...aVmi().metadata, deletionTimestamp: "2026-01-01T00:00:00Z" },
  };

  test.each([
    { name: "while it is being deleted", ifaces: [], change: { vmi: deleted } },
    { name: "before an iface has an attachment", ifaces: [anIface()], change: {} },
    {
      name: "while an attachment is requested",
      ifaces: [
        anIface({ name: "a", attachment: "Attached", links: WIRED }),
        anIface({ name: "b", attachment: "Requested" }),
      ],
      change: {},
    },
    {
      name: "again after its VMI has run",
      ifaces: [],
      change: { vmi: aVmi({ status: { phase: "Running" } }) },
    },
    {
      name: "again after its VMI has run, while the node is considered unresponsive",
      ifaces: [],
      change: {
        vmi: aVmi({
          status: {
            phase: "Unknown",
            phaseTransitionTimestamps: [{ phase: "Running", phaseTransitionTimestamp: "x" }],
          },
        }),
      },
    },
  ])("$name", ({ ifaces, change }) => {
    expect(plan(ifaces, change)).toEqual([]);
  });
});

describe("without a running domain", () => {
  const leftover = anIface({
    iface: { state: "absent" },
    links: { hasTap: true, hasBridge: true },
  });
  const unwire = {
    kind: "unwireTap",
    iface: "a",
    wiring: {
      kind: "bridge",
      podInterfaceName: "pod0a",
      tapName: "tap0a",
      bridgeName: "k6t-0a",
    },
  };

  test("removes unwanted links before the VM starts", () => {
    const actions = plan([leftover, anIface({ name: "b", attachment: "Attached", links: WIRED })]);
    expect(actions[0]).toEqual(unwire);
    expect(listSteps(actions.slice(1))).toEqual(START);
    expect(nicsOf(actions)).toEqual(["ua-b"]);
  });

  test("removes unwanted links if the VM will not start again", () => {
    const vmi = aVmi({ status: { phase: "Running" } });
    expect(plan([leftover], { vmi })).toEqual([unwire]);
  });

  test("does not request an unplug that libvirt already has pending", () => {
    const facts = anIface({ iface: { state: "absent" }, device: {}, links: IN_USE });
    expect(listSteps(plan([facts]))).toEqual(START);
  });
});

describe("an interface whose device was released", () => {
  // Literals are members of the unions; nothing else of the facts is looked at.
  const goingOf = (type: "Plug" | "Unplug"): NodeVmFacts =>
    ({ ifaces: [{ name: "one", reported: { name: "one", hotplug: { type } } }] }) as never;
  // Of what the step carries only the NIC in the pod matters.
  const stepOn = (kind: NodeAction["kind"], iface: string, podInterfaceName = "pod1"): NodeAction =>
    ({ kind, iface, wiring: { podInterfaceName }, to: { podInterfaceName } }) as never;

  test.each([
    {
      name: "must be reported first when it is wired again",
      type: "Unplug",
      kind: "wireTap",
      want: true,
    },
    {
      name: "need not be reported while its unplug continues",
      type: "Unplug",
      kind: "unwireTap",
      want: false,
    },
    {
      name: "need not be reported if it was never released",
      type: "Plug",
      kind: "wireTap",
      want: false,
    },
  ] as const)("$name", ({ type, kind, want }) => {
    expect(mustReportFirst([stepOn(kind, "one")], goingOf(type))).toBe(want);
  });

  test("does not include other interfaces", () => {
    expect(mustReportFirst([stepOn("wireTap", "two")], goingOf("Unplug"))).toBe(false);
  });

  test.each<{ name: string; kind: NodeAction["kind"]; reported: IfaceStatus; want: boolean }>([
    { name: "a swap", kind: "swapNetwork", reported: { podInterfaceName: "pod0" }, want: true },
    { name: "a wiring", kind: "wireTap", reported: { podInterfaceName: "pod0" }, want: true },
    {
      name: "not a swap that is already reported",
      kind: "swapNetwork",
      reported: { podInterfaceName: "pod0", otherPodInterfaceNames: ["pod1"] },
      want: false,
    },
    {
      name: "not a bridge removal",
      kind: "removeBridge",
      reported: { podInterfaceName: "pod0" },
      want: false,
    },
    { name: "not a first wiring", kind: "wireTap", reported: {}, want: false },
  ])(
    "must be reported before another NIC in the pod is used: $name",
    ({ kind, reported, want }) => {
      const facts = { ifaces: [{ name: "one", reported: { name: "one", ...reported } }] } as never;
      expect(mustReportFirst([stepOn(kind, "one")], facts)).toBe(want);
    },
  );
});

const LINKS = { ...NO_LINKS, hasPodInterface: true, hasBridge: true, hasTap: true };
const hotplug = { type: "Plug", phase: "Ready" } as const;
const READY: IfaceFacts = {
  name: "one",
  podInterfaceName: "pod1",
  iface: { name: "one", bridge: {} },
  binding: { kind: "bridge" },
  links: LINKS,
  reported: { name: "one", hotplug },
};
const NAMES = { kind: "bridge", podInterfaceName: "pod1", bridgeName: "b", tapName: "t" } as const;
const wiring = { ...NAMES, mac: "", mtu: 1500, owner: 107, queues: 1 };
const WIRE: NodeAction = { kind: "wireTap", iface: "one", wiring };
const DETACH: NodeAction = { kind: "detachDevice", iface: "one", alias: "ua-one" };
type DriftFacts = Parameters<typeof findDrift>[1];
const RUNNING: DriftFacts & { readonly domain: DomainSnapshot } = {
  vmi: aVmi(),
  role: "owner",
  ifaces: [],
  domain: running(),
};
const ATTACH: NodeAction = { kind: "attachDevice", iface: "one", xml: "" };

test.each<{ name: string; action: NodeAction; links?: Partial<typeof LINKS>; says: string }>([
  { name: "a tap", action: WIRE, links: { hasTap: false }, says: "its tap did not exist" },
  { name: "a bridge", action: WIRE, links: { hasBridge: false }, says: "its bridge did not exist" },
  {
    name: "both",
    action: WIRE,
    links: { hasTap: false, hasBridge: false },
    says: "its tap and its bridge did not exist",
  },
  { name: "other changes", action: WIRE, says: "were changed by something else" },
  { name: "the tap of its device", action: DETACH, says: "not the one that its device uses" },
  { name: "the device", action: ATTACH, says: "its device was missing" },
])("reports that a ready NIC has lost $name", ({ action, links = {}, says: message }) => {
  const facts = { ...READY, links: { ...LINKS, ...links } };
  const drift = findDrift([action], { ...RUNNING, ifaces: [facts] });
  expect(drift).toMatchObject([{ iface: "one" }]);
  expect(drift[0]?.message).toMatch(/^interface one: /);
  expect(drift[0]?.message).toContain(message);
});

test.each<{ name: string; facts: IfaceFacts; action: NodeAction }>([
  {
    name: "of a NIC that is not ready",
    facts: { ...READY, reported: { name: "one", hotplug: { ...hotplug, phase: "Wiring" } } },
    action: WIRE,
  },
  {
    name: "of a NIC that is being unplugged",
    facts: { ...READY, iface: { name: "one", state: "absent" } },
    action: DETACH,
  },
  {
    name: "of a changed link state",
    facts: READY,
    action: { kind: "setLink", iface: "one", xml: "" },
  },
  { name: "of another iface", facts: { ...READY, name: "two" }, action: WIRE },
  { name: "of the domain", facts: READY, action: { kind: "startDomain" } },
])("reports no drift $name", ({ facts, action }) => {
  expect(findDrift([action], { ...RUNNING, ifaces: [facts] })).toEqual([]);
});

test("reports no drift of links that follow a changed specification", () => {
  const facts = { ...RUNNING, ifaces: [READY], changedIfaces: new Set(["one"]) };
  expect(findDrift([WIRE], facts)).toEqual([]);
  expect(findDrift([DETACH, ATTACH], facts)).toHaveLength(2);
  expect(findDrift([WIRE], { ...facts, changedIfaces: new Set(["two"]) })).toHaveLength(1);
});

const DELETED_AT = "2026-01-01T00:00:00Z";
test.each<{ name: string; facts: Partial<DriftFacts> }>([
  {
    name: "of a VMI that is being deleted, because its launcher ends with its links",
    facts: { vmi: { ...aVmi(), metadata: { ...aVmi().metadata, deletionTimestamp: DELETED_AT } } },
  },
  { name: "of a guest that has ended", facts: { vmi: aVmi({ status: { phase: "Succeeded" } }) } },
  { name: "of a guest that starts, without a domain", facts: { domain: undefined } },
  {
    name: "of a guest that starts again, whose domain does not run yet",
    facts: { domain: { ...RUNNING.domain, running: false } },
  },
  { name: "of a guest that migrates to this node", facts: { role: "target" } },
])("reports no drift $name", ({ facts }) => {
  for (const action of [WIRE, DETACH, ATTACH]) {
    expect(findDrift([action], { ...RUNNING, ...facts, ifaces: [READY] })).toEqual([]);
  }
});
