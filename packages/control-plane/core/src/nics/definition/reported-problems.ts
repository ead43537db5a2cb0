// SPDX-License-Identifier: Apache-2.0
// Problems that nodes report in a definition's status. Each node writes one entry and removes outdated entries.
import type { NetworkAttachmentDefinition, NodeProblem } from "@patchbay/api";
import type { JsonPatchOperation } from "@patchbay/api/json";
import { type AppError, isEqual } from "@patchbay/base";

import { reasonOf, messageWithAdvice } from "../../reasons/of-error.ts";

/** Maximum number of nodes whose problems the status contains. It limits the size of the status. */
const REPORTING_NODES_MAX = 10;
/** Maximum length of a message, in characters. Source: Kubernetes, messages of events. */
const MESSAGE_MAX = 1024;

export function summarizeProblems(
  network: string,
  problems: readonly AppError[],
): { readonly reason: string; readonly message: string } | undefined {
  const [mostSevere] = problems;
  if (mostSevere === undefined) return undefined;
  const message = problems.map((problem) => messageWithAdvice(problem, { network })).join(". ");
  return { reason: reasonOf(mostSevere) ?? "CniFailed", message: message.slice(0, MESSAGE_MAX) };
}

function generationOf(nad: NetworkAttachmentDefinition): number {
  return nad.metadata.generation ?? 0;
}

/** Returns whether another node's entry is about an earlier generation of the definition, for example because that node was deleted. */
export function hasStaleProblems(nad: NetworkAttachmentDefinition, node: string): boolean {
  const generation = generationOf(nad);
  const problems = nad.status?.problems ?? [];
  return problems.some((entry) => entry.node !== node && entry.generation < generation);
}

export function listOtherNodes(nad: NetworkAttachmentDefinition, node: string): readonly string[] {
  const nodes = (nad.status?.problems ?? []).map((entry) => entry.node);
  return nodes.filter((each) => each !== node).toSorted();
}

/**
 * Replaces the node's entry, and drops entries of earlier generations and of deleted nodes. Omits the node's entry if the list is full.
 * Sorts the list, so that all nodes write the same order.
 */
function replaceOwnEntry(
  nad: NetworkAttachmentDefinition,
  { node, deletedNodes }: Pick<NodeFinding, "node" | "deletedNodes">,
  ownEntry: NodeProblem | undefined,
): readonly NodeProblem[] {
  const generation = generationOf(nad);
  const otherEntries = (nad.status?.problems ?? []).filter(
    (entry) =>
      entry.node !== node && entry.generation >= generation && !deletedNodes.includes(entry.node),
  );
  const hasRoom = ownEntry !== undefined && otherEntries.length < REPORTING_NODES_MAX;
  return [...otherEntries, ...(hasRoom ? [ownEntry] : [])].toSorted((one, other) =>
    one.node < other.node ? -1 : 1,
  );
}

export interface NodeFinding {
  readonly node: string;
  readonly reported: ReturnType<typeof summarizeProblems>;
  /** Whether to patch the status even if only outdated entries of other nodes must be removed. */
  readonly removesStale: boolean;
  readonly deletedNodes: readonly string[];
}

export function buildProblemsPatch(
  nad: NetworkAttachmentDefinition,
  { node, reported, removesStale, deletedNodes }: NodeFinding,
): readonly JsonPatchOperation[] {
  const entries = nad.status?.problems ?? [];
  const before = entries.find((entry) => entry.node === node);
  const ownEntry = reported && { node, ...reported, generation: generationOf(nad) };
  const problems = replaceOwnEntry(nad, { node, deletedNodes }, ownEntry);
  const after = problems.find((entry) => entry.node === node);
  const hasChanged =
    !isEqual(before, after) ||
    (removesStale && hasStaleProblems(nad, node)) ||
    entries.some((entry) => deletedNodes.includes(entry.node));
  if (!hasChanged) return [];
  const { uid, resourceVersion } = nad.metadata;
  return [
    { op: "test", path: "/metadata/uid", value: uid },
    { op: "test", path: "/metadata/resourceVersion", value: resourceVersion },
    problems.length === 0
      ? { op: "remove", path: "/status/problems" }
      : { op: "add", path: "/status", value: { ...nad.status, problems } },
  ];
}
