// SPDX-License-Identifier: Apache-2.0
// Checks of the networks, based on the problems that net-agents report.
import {
  apiVersionOf,
  NETWORK_ATTACHMENT_DEFINITIONS,
  type NetworkAttachmentDefinition,
} from "@patchbay/api";
import type { KubeEvent } from "@patchbay/api/kubernetes";
import { DEFINITION_WARNINGS, REASONS } from "@patchbay/core/reasons";
import type { Facts } from "../facts.ts";
import { ifObserved, ok, warning, wrong, type Finding } from "../finding.ts";

function printCheck({ metadata }: NetworkAttachmentDefinition): string {
  return `network ${metadata.namespace ?? ""}/${metadata.name}`;
}

function judgeNetwork(network: NetworkAttachmentDefinition): readonly Finding[] {
  const check = printCheck(network);
  return (network.status?.problems ?? []).map(({ node, reason, message: problem }) => {
    const message = `${reason} on node ${node}: ${problem}`;
    const fix = `see docs/reference/reasons.md, ${reason}; existing interfaces are not affected`;
    const isWarning = DEFINITION_WARNINGS.includes(reason);
    return isWarning ? warning(check, message) : wrong(check, { message, fix });
  });
}

/** Returns whether the NetworkAttachmentDefinition CRD has a status. Multus' CRD has none, so net-agent can only record events. */
function hasStatus({ apis }: Pick<Facts, "apis">): boolean {
  const { resource } = NETWORK_ATTACHMENT_DEFINITIONS;
  const api = apis.find(
    ({ groupVersion }) => groupVersion === apiVersionOf(NETWORK_ATTACHMENT_DEFINITIONS),
  );
  return (
    api !== undefined && "value" in api.served && api.served.value.includes(`${resource}/status`)
  );
}

/** Returns a warning, not a fault, for the newest event of each node, because the problem may already be solved. */
function judgeByEvents(
  network: NetworkAttachmentDefinition,
  events: readonly KubeEvent[],
): readonly Finding[] {
  const newest = new Map<string, KubeEvent>();
  for (const event of events) {
    const { involvedObject, reason, lastTimestamp = "", source } = event;
    if (involvedObject.uid !== network.metadata.uid || !Object.hasOwn(REASONS, reason)) continue;
    const node = source?.host ?? "";
    if (lastTimestamp >= (newest.get(node)?.lastTimestamp ?? "")) newest.set(node, event);
  }
  return [...newest].map(([node, { reason, message, lastTimestamp = "an unknown time" }]) =>
    warning(
      printCheck(network),
      `${reason} on node ${node}: ${message} (event of ${lastTimestamp}; it may be repaired since, because this kind has no status)`,
    ),
  );
}

export function judgeNetworks(facts: Facts): readonly Finding[] {
  return ifObserved("networks", facts.networks, (value) => {
    const { networkEvents } = facts;
    const events = hasStatus(facts) || "failure" in networkEvents ? [] : networkEvents.value;
    const findings = value.map((each) => [...judgeNetwork(each), ...judgeByEvents(each, events)]);
    const healthyCount = findings.filter((each) => each.length === 0).length;
    const message = `no node reports problems with ${String(healthyCount)} of ${String(value.length)}`;
    return [
      ...(healthyCount > 0 || value.length === 0 ? [ok("networks", message)] : []),
      ...findings.flat(),
    ];
  });
}
