// SPDX-License-Identifier: Apache-2.0
import type { PathFacts } from "./facts.ts";
import type { Faults, JudgedFacts } from "./frame-loss.ts";
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

const JUDGES: Readonly<Record<HopName, (facts: JudgedFacts) => Verdict>> = {
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

/** Hops that are dead for a reason of their own. Frames lost beside them need no second explanation. */
function findFaults(facts: PathFacts): Faults {
  return new Map(
    HOPS.flatMap((hop) => {
      const { state, reason } = JUDGES[hop](facts);
      return state === "dead" ? [[hop, reason] as const] : [];
    }),
  );
}

/** Unplugging the interface does not remove faults of the node or the network. */
const HOPS_OUTSIDE_POD: readonly HopName[] = ["nodePeer", "nodeBridge", "uplink", "gateway"];

/** The guest's own outgoing connections may still work. */
const UNCERTAIN_REASONS: readonly (string | undefined)[] = ["GuestRefusesIp", "LossyLink"];

function isPodFault(hops: readonly HopReport[], first: HopName): boolean {
  const reason = hops.find(({ hop }) => hop === first)?.reason;
  return !HOPS_OUTSIDE_POD.includes(first) && !UNCERTAIN_REASONS.includes(reason);
}

export function diagnose(
  facts: PathFacts,
): Pick<DoctorReport, "hops" | "firstDead" | "isUnplugReason"> {
  const judged = { ...facts, faults: findFaults(facts) };
  const hops = HOPS.map((hop) => ({ hop, ...JUDGES[hop](judged) }));
  const first = hops.find(({ state }) => state === "dead")?.hop;
  return {
    hops,
    ...(first === undefined ? {} : { firstDead: first }),
    isUnplugReason: first !== undefined && isPodFault(hops, first),
  };
}
