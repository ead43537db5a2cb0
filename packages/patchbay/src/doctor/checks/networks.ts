// SPDX-License-Identifier: Apache-2.0
// Whether NICs can be made of the networks, as the nodes' net-agents have judged it.
import {
  apiVersionOf,
  NETWORK_ATTACHMENT_DEFINITIONS,
  type KubeEvent,
  type NetworkAttachmentDefinition,
} from "@patchbay/api";
import { REASONS } from "@patchbay/core";
import type { Facts } from "../facts.ts";
import { ifSeen, ok, warning, wrong, type Finding } from "../finding.ts";

/** Reason of a definition that net-agent attaches and only warns of. */
const TOLERATED = "DefinitionTolerated";

function checkOf({ metadata }: NetworkAttachmentDefinition): string {
  return `network ${metadata.namespace ?? ""}/${metadata.name}`;
}

function judgeNetwork(network: NetworkAttachmentDefinition): readonly Finding[] {
  const check = checkOf(network);
  return (network.status?.problems ?? []).map(({ node, reason, message }) => {
    const says = `${reason} on node ${node}: ${message}`;
    const fix = `see docs/reference/reasons.md, ${reason}; what is plugged already goes on`;
    return reason === TOLERATED ? warning(check, says) : wrong(check, { says, fix });
  });
}

/** Multus' kind has no status subresource, so net-agent reports in events alone there. */
function keepsStatus({ apis }: Pick<Facts, "apis">): boolean {
  const { resource } = NETWORK_ATTACHMENT_DEFINITIONS;
  const api = apis.find(
    ({ groupVersion }) => groupVersion === apiVersionOf(NETWORK_ATTACHMENT_DEFINITIONS),
  );
  return (
    api !== undefined && "seen" in api.served && api.served.seen.includes(`${resource}/status`)
  );
}

/** The newest event of each node about the network. What it reports may be mended since, so it is a warning. */
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
      checkOf(network),
      `${reason} on node ${node}: ${message} (event of ${lastTimestamp}; it may be mended since, because this kind keeps no status)`,
    ),
  );
}

/** One line for all that are sound, and one for each problem of a node. */
export function judgeNetworks(facts: Facts): readonly Finding[] {
  return ifSeen("networks", facts.networks, (seen) => {
    const { networkEvents } = facts;
    const events = keepsStatus(facts) || "unseen" in networkEvents ? [] : networkEvents.seen;
    const findings = seen.map((each) => [...judgeNetwork(each), ...judgeByEvents(each, events)]);
    const sound = findings.filter((each) => each.length === 0).length;
    const says = `no node finds anything wrong with ${String(sound)} of ${String(seen.length)}`;
    return [...(sound > 0 || seen.length === 0 ? [ok("networks", says)] : []), ...findings.flat()];
  });
}
