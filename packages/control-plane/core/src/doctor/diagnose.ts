// SPDX-License-Identifier: Apache-2.0
import type { PathFacts } from "./facts.ts";
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
import { HOPS, type DoctorReport, type HopName, type HopReport, type Verdict } from "./report.ts";

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

export function diagnose(
  facts: PathFacts,
): Pick<DoctorReport, "hops" | "firstDead" | "isUnplugReason"> {
  const judgedFacts = { ...facts, faults: findFaults(facts) };
  const hops = HOPS.map((hop) => ({ hop, ...JUDGES[hop](judgedFacts) }));
  const firstDead = hops.find(({ state }) => state === "dead")?.hop;
  return {
    hops,
    ...(firstDead === undefined ? {} : { firstDead: firstDead }),
    isUnplugReason: firstDead !== undefined && isPodFault(hops, firstDead),
  };
}
