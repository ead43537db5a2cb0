// SPDX-License-Identifier: Apache-2.0
// Paths of NICs for tests of the doctor: healthy except for one change.
import { expect } from "vitest";
import { diagnose } from "../doctor/diagnose.ts";
import type {
  FrameTrace,
  ObservedPath,
  PathFacts,
  PathLink,
  PathLinks,
  WiringFault,
} from "../doctor/facts.ts";
import type { DoctorReason } from "../doctor/reasons.ts";
import { HOPS, type HopName, type HopReport } from "../doctor/report.ts";

export const MAC = "02:00:00:00:5e:01";
/** Another host's MAC. */
export const OTHER = "02:00:00:00:5e:99";

export function link(name: string, more: Partial<PathLink> = {}): PathLink {
  return {
    name,
    kind: "veth",
    mac: OTHER,
    mtu: 1500,
    up: true,
    carrier: true,
    addresses: [],
    isBlocked: false,
    canFilterVlans: false,
    vlans: [],
    ...more,
  };
}

const LINKS: PathLinks = {
  tap: link("tap1", { kind: "tun", master: "k6t-1" }),
  podBridge: link("k6t-1", { kind: "bridge" }),
  podNic: link("pod1", { master: "k6t-1" }),
  nodePeer: link("veth1", { master: "br0", addresses: ["fe80::1/64"] }),
  nodeBridge: link("br0", { kind: "bridge" }),
  uplinks: [link("eno1", { kind: "", master: "br0" })],
  onNode: "peer",
};

/** A probe that reached its target, with all replies. */
export function trace(probe: FrameTrace["probe"], more: Partial<FrameTrace> = {}): FrameTrace {
  const isInward = probe.startsWith("inward") || probe === "ping" || probe === "connect";
  return {
    probe,
    probeSeenAt: isInward
      ? ["nodePeer", "podNic", "tap"]
      : ["podNic", "nodePeer", "nodeBridge", "uplink"],
    replySeenAt: isInward ? ["tap", "podNic", "nodePeer"] : ["uplink", "nodePeer", "podNic", "tap"],
    repliedFrom: [isInward ? MAC : OTHER],
    repliedTo: [isInward ? OTHER : MAC],
    ...more,
  };
}

/** A probe without a reply, and the hops that saw it. */
export function asked(probe: FrameTrace["probe"], ...hops: readonly HopName[]): FrameTrace {
  return trace(probe, { probeSeenAt: hops, replySeenAt: [], repliedFrom: [], repliedTo: [] });
}

export const FROM_POD: readonly FrameTrace[] = (
  ["inward", "inwardLarge", "ping", "connect"] as const
).map((probe) =>
  trace(probe, { probeSeenAt: ["tap"], replySeenAt: ["tap", "podBridge", "podNic"] }),
);

const TRACES: readonly FrameTrace[] = [
  ...(["inward", "inwardLarge", "outward", "outwardLarge"] as const).map((probe) => trace(probe)),
  ...(["echo", "echoLarge", "echoPartial", "ping", "connect"] as const).map((probe) =>
    trace(probe),
  ),
  trace("own", { replySeenAt: [], repliedFrom: [], repliedTo: [] }),
];

type Loose<T> = { readonly [Key in keyof T]?: T[Key] | undefined };

export interface PathChange extends Loose<Omit<PathFacts, "observed">> {
  readonly links?: Loose<PathLinks>;
  readonly traces?: readonly FrameTrace[];
  readonly wiringFaults?: readonly WiringFault[];
  readonly observed?: Loose<ObservedPath>;
  /** No kernel link carries the interface. */
  readonly isUnseen?: true;
}

function changed<T extends object>(whole: T, change: Loose<T> = {}): T {
  const entries = Object.entries({ ...whole, ...change });
  return Object.fromEntries(entries.filter(([, value]) => value !== undefined)) as T;
}

export function pathFacts(change: PathChange): PathFacts {
  const { links, traces = [], wiringFaults = [], observed, isUnseen, ...more } = change;
  const others = TRACES.filter(({ probe }) => !traces.some((one) => one.probe === probe));
  const whole: PathFacts = {
    binding: "bridge",
    device: { linkUp: true, mac: MAC, mtu: 1500 },
    guest: { macs: [MAC], name: "eth0", addresses: ["10.9.0.1"], hasDefaultRoute: true },
    names: { VM: "alpha", NAMESPACE: "blue-team", INTERFACE: "blue", LENGTH: "24" },
    netns: "4026532999",
    offersDefaultRoute: true,
    observed: changed<ObservedPath>(
      {
        isBridged: true,
        links: changed(LINKS, links),
        wiringFaults,
        traces: [...others, ...traces],
        refused: [],
        target: { address: "10.9.0.254", at: "beyond" },
      },
      observed,
    ),
  };
  const { observed: path, ...unobserved } = changed(whole, more);
  return isUnseen === true || path === undefined ? unobserved : { ...unobserved, observed: path };
}

export function buildWiringFault(what: WiringFault["what"], at: string): readonly WiringFault[] {
  return [{ link: at, what, description: "ip link set" }];
}

/** A change, and the first dead hop. Without a hop all must be alive. */
export type PathRow = readonly [
  name: string,
  change: PathChange,
  want?: readonly [HopName, DoctorReason],
];

export function buildCases(rows: readonly PathRow[]): readonly {
  readonly name: string;
  readonly change: PathChange;
  readonly want: PathRow[2];
}[] {
  return rows.map(([name, change, want]) => ({ name, change, want }));
}

/** Words that only a person can replace: the NIC to use as uplink, and links and VLANs that nothing reports. */
const OPEN_WORDS: Readonly<Record<string, string>> = {
  UplinkMissing: "UPLINK",
  VlanMissing: "VLAN",
};

/** Expects that the commands of the fix name the real links, addresses and objects. Only an agent reports the name of the guest's NIC. */
function expectNames(first: HopReport | undefined, { guest }: PathFacts): void {
  const { reason = "", fix = "" } = first ?? {};
  const ofGuest = first?.hop === "guest" && guest?.name === undefined ? "DEV" : undefined;
  const commands = [...fix.matchAll(/`([^`]*)`/g)].map(([, command = ""]) => command);
  const known = [
    "PID",
    "FORWARD",
    "INPUT",
    "POSTROUTING",
    "MASQUERADE",
    OPEN_WORDS[reason],
    ofGuest,
  ];
  const open = commands.flatMap((command) => command.match(/\b[A-Z]{2,}\b/g) ?? []);
  expect(open.filter((word) => !known.includes(word))).toEqual([]);
}

export function expectRow(change: PathChange, want: PathRow[2]): void {
  const facts = pathFacts(change);
  const { hops, firstDead } = diagnose(facts);
  expect(hops.map(({ hop }) => hop)).toEqual(HOPS);
  const first = hops.find(({ hop }) => hop === firstDead);
  expect(first === undefined ? undefined : [first.hop, first.reason]).toEqual(want);
  expectNames(first, facts);
}
