// SPDX-License-Identifier: Apache-2.0
// Whether NICs can be made of the networks, as the nodes' net-agents have judged it.
import type { NetworkAttachmentDefinition } from "@patchbay/api";
import type { Facts } from "../facts.ts";
import { ifSeen, ok, wrong, type Finding } from "../finding.ts";

function judgeNetwork({ metadata, status }: NetworkAttachmentDefinition): readonly Finding[] {
  const check = `network ${metadata.namespace ?? ""}/${metadata.name}`;
  return (status?.problems ?? []).map(({ node, reason, message }) =>
    wrong(check, {
      says: `${reason} on node ${node}: ${message}`,
      fix: `see docs/reference/reasons.md, ${reason}; what is plugged already goes on`,
    }),
  );
}

/** One line for all that are sound, and one for each problem of a node. */
export function judgeNetworks({ networks }: Facts): readonly Finding[] {
  return ifSeen("networks", networks, (seen) => {
    const troubles = seen.flatMap(judgeNetwork);
    const sound = seen.filter(({ status }) => (status?.problems ?? []).length === 0).length;
    const says = `no node finds anything wrong with ${String(sound)} of ${String(seen.length)}`;
    return [...(sound > 0 || seen.length === 0 ? [ok("networks", says)] : []), ...troubles];
  });
}
