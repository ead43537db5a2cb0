// SPDX-License-Identifier: Apache-2.0
// Everything that the doctor says of an installation, in the order in which one thing needs another.
import { apiVersionOf, NETWORK_ATTACHMENT_DEFINITIONS } from "@patchbay/api";
import {
  judgeAdmission,
  judgeApiServer,
  SERVER_CLOCK,
  judgeCertificates,
} from "./checks/api-server.ts";
import { judgeComponents, judgeDaemonSets } from "./checks/components.ts";
import { judgeLeftovers } from "./checks/leftovers.ts";
import { judgeNetworks } from "./checks/networks.ts";
import { judgeNodes, judgePodStart, judgeSelinux } from "./checks/nodes.ts";
import { isNetAgentAlone, type Facts } from "./facts.ts";
import { ifSeen, type Finding } from "./finding.ts";

const JUDGES: readonly ((facts: Facts) => readonly Finding[])[] = [
  judgeApiServer,
  judgeAdmission,
  judgeCertificates,
  judgeComponents,
  judgeNodes,
  judgePodStart,
  judgeSelinux,
  judgeNetworks,
  judgeLeftovers,
];

/** Kinds, webhooks, VMs and a leader belong to services that are not installed then. */
function judgeNetAgent(facts: Facts): readonly Finding[] {
  const networks = facts.apis.filter(
    ({ groupVersion }) => groupVersion === apiVersionOf(NETWORK_ATTACHMENT_DEFINITIONS),
  );
  return [
    ...judgeApiServer({ ...facts, apis: networks }).filter(({ check }) => check !== SERVER_CLOCK),
    ...ifSeen("DaemonSets of Patchbay", facts.daemonSets, judgeDaemonSets),
    ...judgeNodes(facts),
    ...judgeNetworks(facts),
  ];
}

/** Pure. */
export function judgeInstallation(facts: Facts): readonly Finding[] {
  if (isNetAgentAlone(facts)) return judgeNetAgent(facts);
  return JUDGES.flatMap((judge) => judge(facts));
}
