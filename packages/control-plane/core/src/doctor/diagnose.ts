// SPDX-License-Identifier: Apache-2.0
import { omitUndefined } from "@patchbay/base";
import { isWithin, parseIp, toNetworkAddress } from "@patchbay/api/values";
import type { ObservedPath, PathFacts, PathLink } from "./facts.ts";
import type { Faults, FactsWithFaults } from "./frame-loss.ts";
import { judgeDevice, judgeGuest } from "./judge-guest.ts";
import { judgeGateway, judgeNodeBridge, judgeNodePeer, judgeUplink } from "./judge-node.ts";
import {
  judgeAddresses,
  judgePodBridge,
  judgePodNic,
  judgeTap,
  judgeTranslation,
} from "./judge-pod.ts";
import {
  HOPS,
  printFix,
  type DoctorReport,
  type FixValues,
  type HopName,
  type HopReport,
  type Verdict,
} from "./report.ts";

const JUDGES: Readonly<Record<HopName, (facts: FactsWithFaults) => Verdict>> = {
  guest: judgeGuest,
  device: judgeDevice,
  tap: judgeTap,
  podBridge: judgePodBridge,
  addresses: judgeAddresses,
  translation: judgeTranslation,
  podNic: judgePodNic,
  nodePeer: judgeNodePeer,
  nodeBridge: judgeNodeBridge,
  uplink: judgeUplink,
  gateway: judgeGateway,
};

function findFaults(facts: PathFacts): Faults {
  return new Map(
    HOPS.flatMap((hop) => {
      const { state, reason } = JUDGES[hop](facts);
      return state === "dead" ? [[hop, reason] as const] : [];
    }),
  );
}

/** Hops outside the pod. Unplugging the interface does not repair their faults. */
const HOPS_OUTSIDE_POD: readonly HopName[] = ["nodePeer", "nodeBridge", "uplink", "gateway"];

const UNCERTAIN_REASONS: readonly (string | undefined)[] = ["GuestRefusesIp", "LossyLink"];

function isPodFault(hops: readonly HopReport[], firstDead: HopName): boolean {
  const reason = hops.find(({ hop }) => hop === firstDead)?.reason;
  return !HOPS_OUTSIDE_POD.includes(firstDead) && !UNCERTAIN_REASONS.includes(reason);
}

const HOPS_IN_POD: readonly HopName[] = ["tap", "podBridge", "addresses", "translation", "podNic"];

/**
 * Returns the name of the link that the fix's commands use. For `gateway`, this is the last link before the gateway; for `addresses`
 * and `translation`, it is the pod NIC.
 */
function findLink(
  hop: HopName,
  { guest, observed }: PathFacts,
  name: string | undefined,
): string | undefined {
  const {
    podNic,
    nodePeer,
    nodeBridge,
    uplinks = [],
  }: Partial<ObservedPath["links"]> = observed?.links ?? {};
  if (hop === "guest") return guest?.name;
  if (hop === "addresses" || hop === "translation") return podNic?.name;
  if (hop === "gateway") return (uplinks[0] ?? nodeBridge ?? nodePeer ?? podNic)?.name;
  return name;
}

/**
 * Guesses which bridge lost the port `nodePeer`: the bridge in the guest's subnet, otherwise the only bridge. Returns `nodePeer` if the
 * node has no bridge. Returns undefined if the node has several bridges, and none of them is in the guest's subnet.
 */
function findLostBridge({ observed }: PathFacts): PathLink | undefined {
  const { bridges = [], nodePeer }: Partial<ObservedPath["links"]> = observed?.links ?? {};
  const guest = parseIp(observed?.source ?? observed?.target?.address ?? "");
  const inNetwork = bridges.find(({ addresses }) =>
    addresses.some((text) => {
      const subnet = parseIp(text);
      return (
        subnet !== undefined && guest !== undefined && isWithin(guest, toNetworkAddress(subnet))
      );
    }),
  );
  if (inNetwork !== undefined || bridges.length === 1) return inNetwork ?? bridges[0];
  return bridges.length === 0 ? nodePeer : undefined;
}

function findFixValues(hop: HopName, facts: PathFacts, verdict: Verdict): FixValues {
  const { device, observed, names } = facts;
  const { podBridge, nodeBridge, tap }: Partial<ObservedPath["links"]> = observed?.links ?? {};
  const bridge = HOPS_IN_POD.includes(hop) ? podBridge : (nodeBridge ?? findLostBridge(facts));
  const mtu = device?.mtu ?? tap?.mtu;
  return {
    ...omitUndefined({
      ...names,
      ADDRESS: observed?.target?.address,
      BRIDGE: bridge?.name,
      DEV: findLink(hop, facts, verdict.name),
      MAC: device?.mac,
      MTU: mtu === undefined ? undefined : String(mtu),
    }),
    ...verdict.values,
  };
}

function toHopReport(hop: HopName, facts: PathFacts, verdict: Verdict): HopReport {
  const { name, state, reason, why, fix } = verdict;
  const netns = HOPS_IN_POD.includes(hop) ? facts.netns : undefined;
  return {
    hop,
    ...(name === undefined ? {} : { name }),
    state,
    ...(reason === undefined ? {} : { reason }),
    why,
    ...(fix === undefined ? {} : { fix: printFix(fix, findFixValues(hop, facts, verdict), netns) }),
  };
}

export function diagnose(
  facts: PathFacts,
): Pick<DoctorReport, "hops" | "firstDead" | "isUnplugReason"> {
  const judgedFacts = { ...facts, faults: findFaults(facts) };
  const hops = HOPS.map((hop) => toHopReport(hop, facts, JUDGES[hop](judgedFacts)));
  const firstDead = hops.find(({ state }) => state === "dead")?.hop;
  return {
    hops,
    ...(firstDead === undefined ? {} : { firstDead: firstDead }),
    isUnplugReason: firstDead !== undefined && isPodFault(hops, firstDead),
  };
}
