// SPDX-License-Identifier: Apache-2.0
// Says in a definition's status and events what keeps NICs from being made of it on this node; one write, and only of news.
import { NETWORK_ATTACHMENT_DEFINITIONS, type NetworkAttachmentDefinition } from "@patchbay/api";
import { isAppError, problemsPatch, type NodeFinding } from "@patchbay/core";
import { keyOf, printKey } from "@patchbay/kube";
import type { DefinitionDeps } from "./deps.ts";

/** What became of it: the kind has no status, or its status says it now, or said it already. */
type Reported = "without status" | "written" | "known";

function titleOf(reason: string): string {
  return reason === "DefinitionTolerated"
    ? "network is used against the tenant policy"
    : "network cannot be used";
}

/** Writes the finding. @throws AppError with KUBE_CONFLICT where another node was first: look again */
export async function report(
  nad: NetworkAttachmentDefinition,
  finding: Omit<NodeFinding, "node">,
  { store, events, log, nodeName }: DefinitionDeps,
): Promise<Reported> {
  const operations = problemsPatch(nad, { ...finding, node: nodeName }); // pure
  if (operations.length === 0) return "known";
  const { told } = finding;
  let reported: Reported = "written";
  try {
    const patch = { type: "json", operations } as const;
    await store.patch(NETWORK_ATTACHMENT_DEFINITIONS, keyOf(nad), patch, { subresource: "status" });
  } catch (error) {
    // It is gone, of which its deletion tells, or its kind is Multus' own.
    if (!isAppError(error, "KUBE_NOT_FOUND")) throw error;
    reported = "without status";
  }
  const before = nad.status?.problems?.find(({ node }) => node === nodeName);
  const network = printKey(keyOf(nad));
  if (told === undefined) {
    if (before !== undefined) log.info("network can be used", { network });
  } else if (before?.message !== told.message) {
    log.warn(titleOf(told.reason), { network, reason: told.message });
    events.record(nad, { type: "Warning", ...told });
  }
  return reported;
}
