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

/** Returns the hops whose facts show a fault even without the probe frames. */
function findFaults(facts: PathFacts): Faults {
  return new Map(
    HOPS.flatMap((hop) => {
      const { state, reason } = JUDGES[hop](facts);
      return state === "dead" ? [[hop, reason] as const] : [];
    }),
  );
}

/** Hops whose faults remain after the interface is unplugged: those of the node and the network. */
const HOPS_OUTSIDE_POD: readonly HopName[] = ["nodePeer", "nodeBridge", "uplink", "gateway"];

/** Reasons that do not prove that the guest's own outgoing connections fail. */
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
