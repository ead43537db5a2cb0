// SPDX-License-Identifier: Apache-2.0
// Runs all checks of an installation. Checks of a component follow the checks of its dependencies.
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
import { judgeNodes, judgePodStart, judgeSelinux, judgeTenants } from "./checks/nodes.ts";
import { isNetAgentAlone, type Facts } from "./facts.ts";
import { ifObserved, type Finding } from "./finding.ts";

const JUDGES: readonly ((facts: Facts) => readonly Finding[])[] = [
  judgeApiServer,
  judgeAdmission,
  judgeCertificates,
  judgeComponents,
  judgeNodes,
  judgePodStart,
  judgeSelinux,
  judgeNetworks,
  judgeTenants,
  judgeLeftovers,
];

function judgeNetAgent(facts: Facts): readonly Finding[] {
  const networks = facts.apis.filter(
    ({ groupVersion }) => groupVersion === apiVersionOf(NETWORK_ATTACHMENT_DEFINITIONS),
  );
  return [
    ...judgeApiServer({ ...facts, apis: networks }).filter(({ check }) => check !== SERVER_CLOCK),
    ...ifObserved("DaemonSets of Patchbay", facts.daemonSets, judgeDaemonSets),
    ...judgeNodes(facts),
    ...judgeNetworks(facts),
  ];
}

export function judgeInstallation(facts: Facts): readonly Finding[] {
  if (isNetAgentAlone(facts)) return judgeNetAgent(facts);
  return JUDGES.flatMap((judge) => judge(facts));
}
