// SPDX-License-Identifier: Apache-2.0
// Facts of a way → what is said of each hop, and which is the first that is dead. Pure.
import type { WayFacts } from "./facts.ts";
import type { Faults, JudgedFacts } from "./judge-frames.ts";
import { judgeDevice, judgeGuest } from "./judge-guest.ts";
import { judgeGateway, judgeNodeBridge, judgeNodePeer, judgeUplink } from "./judge-node.ts";
import {
  judgeAddresses,
  judgePodBridge,
  judgePodNic,
  judgeTap,
  judgeTranslation,
} from "./judge-pod.ts";
import { HOPS, type DoctorReport, type HopName, type HopReport } from "./report.ts";
import type { Verdict } from "./verdict.ts";

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

/** What is dead for a reason of its own: frames that are lost beside it need no other. */
function faultsOf(facts: WayFacts): Faults {
  return new Map(
    HOPS.flatMap((hop) => {
      const { state, reason } = JUDGES[hop](facts);
      return state === "dead" ? [[hop, reason] as const] : [];
    }),
  );
}

/** Faults of the node or the network are not the interface's: unplugging it removes none of them. */
const OUTSIDE_POD: readonly HopName[] = ["nodePeer", "nodeBridge", "uplink", "gateway"];

/** Such a guest may work for what it opens itself. */
const UNCERTAIN: readonly (string | undefined)[] = ["GuestRefusesIp", "LossyLink"];

function isOfPod(hops: readonly HopReport[], first: HopName): boolean {
  const reason = hops.find(({ hop }) => hop === first)?.reason;
  return !OUTSIDE_POD.includes(first) && !UNCERTAIN.includes(reason);
}

/** What is said of the way. */
export function diagnose(
  facts: WayFacts,
): Pick<DoctorReport, "hops" | "firstDead" | "isUnplugReason"> {
  const judged = { ...facts, faults: faultsOf(facts) };
  const hops = HOPS.map((hop) => ({ hop, ...JUDGES[hop](judged) }));
  const first = hops.find(({ state }) => state === "dead")?.hop;
  return {
    hops,
    ...(first === undefined ? {} : { firstDead: first }),
    isUnplugReason: first !== undefined && isOfPod(hops, first),
  };
}
