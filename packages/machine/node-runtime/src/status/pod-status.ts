// SPDX-License-Identifier: Apache-2.0
// What does the pod's status say? From facts; pure.
import type { Pod } from "@patchbay/api";
import { lastingRefusal, readySandbox, type LivePodFacts } from "../pods/facts.ts";
import { finalPhaseOf, nextInit, phaseOf } from "../pods/progress.ts";
import { qosClassOf } from "../translate/resources.ts";
import { conditionsOf } from "./conditions.ts";
import { containerStatusOf, type Words } from "./container-status.ts";

/** The status that the node writes. */
export type PodStatus = NonNullable<Pod["status"]>;

/** What the status says beside the facts. */
export interface StatusContext extends Words {
  /** Address of the node. */
  readonly hostIp: string;
  /** Now, RFC 3339. */
  readonly now: string;
}

/** Those of the sandbox, else those that were told: a pod that is over keeps them. */
function addressesOf(facts: LivePodFacts, { hostIp }: StatusContext): Partial<PodStatus> {
  const { spec, status } = facts.pod;
  const sandbox = readySandbox(facts);
  const told = status?.podIPs?.map(({ ip }) => ip) ?? [];
  const own = sandbox === undefined || sandbox.ips.length === 0 ? told : sandbox.ips;
  const ips = spec.hostNetwork === true && sandbox !== undefined ? [hostIp] : own;
  const [podIP] = ips;
  return podIP === undefined ? {} : { podIP, podIPs: ips.map((ip) => ({ ip })) };
}

/** The status; equal to the one that is there when nothing has changed. */
export function podStatusOf(facts: LivePodFacts, context: StatusContext): PodStatus {
  const { pod } = facts;
  const { spec, status: before } = pod;
  const { initContainers = [] } = spec;
  const containerStatuses = spec.containers.map((one) => containerStatusOf(facts, one, context));
  const inits = initContainers.map((one) => containerStatusOf(facts, one, context));
  const final = finalPhaseOf(facts);
  return {
    phase: phaseOf(facts),
    ...lastingRefusal(facts),
    qosClass: qosClassOf(pod),
    hostIP: context.hostIp,
    ...addressesOf(facts, context),
    startTime: before?.startTime ?? context.now,
    conditions: conditionsOf({
      before: before?.conditions ?? [],
      isOver: final !== undefined,
      hasFailed: final === "Failed",
      isInitialized: nextInit(facts) === undefined,
      containers: containerStatuses,
      now: context.now,
    }),
    ...(inits.length > 0 && { initContainerStatuses: inits }),
    containerStatuses,
  };
}
