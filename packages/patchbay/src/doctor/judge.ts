// SPDX-License-Identifier: Apache-2.0
// Everything that the doctor says of an installation, in the order in which one thing needs another.
import { judgeAdmission } from "./checks/admission.ts";
import { judgeApiServer } from "./checks/api-server.ts";
import { judgeCertificates } from "./checks/certificates.ts";
import { judgeComponents } from "./checks/components.ts";
import { judgeLeftovers } from "./checks/leftovers.ts";
import { judgeNetworks } from "./checks/networks.ts";
import { judgeNodes } from "./checks/nodes.ts";
import { judgeSelinux } from "./checks/selinux.ts";
import type { Facts } from "./facts.ts";
import type { Finding } from "./finding.ts";

const JUDGES: readonly ((facts: Facts) => readonly Finding[])[] = [
  judgeApiServer,
  judgeAdmission,
  judgeCertificates,
  judgeComponents,
  judgeNodes,
  judgeSelinux,
  judgeNetworks,
  judgeLeftovers,
];

/** Pure. */
export function judgeInstallation(facts: Facts): readonly Finding[] {
  return JUDGES.flatMap((judge) => judge(facts));
}
