// SPDX-License-Identifier: Apache-2.0
// Problems in a definition's status. Each node writes its own entry and removes outdated entries.
import type { NetworkAttachmentDefinition, NodeProblem } from "@patchbay/api";
import type { JsonPatchOperation } from "@patchbay/api/json";
import { type AppError, isEqual } from "@patchbay/base";

import { reasonOf, messageWithAdvice } from "../../reasons/of-error.ts";

/** Maximum number of reporting nodes, because a problem of a thousand nodes would fill the status. */
const REPORTING_NODES_MAX = 10;
/** Maximum characters of a message. Source: Kubernetes, messages of events. */
const MESSAGE_MAX = 1024;

export function summarizeProblems(
  network: string,
  problems: readonly AppError[],
): { readonly reason: string; readonly message: string } | undefined {
  const [gravest] = problems;
  if (gravest === undefined) return undefined;
  const message = problems.map((problem) => messageWithAdvice(problem, { network })).join(". ");
  return { reason: reasonOf(gravest) ?? "CniFailed", message: message.slice(0, MESSAGE_MAX) };
}

function generationOf(nad: NetworkAttachmentDefinition): number {
  return nad.metadata.generation ?? 0;
}

/** Whether another node's entry is for an older generation. That node would update it if it still existed. */
export function hasStaleProblems(nad: NetworkAttachmentDefinition, node: string): boolean {
  const generation = generationOf(nad);
  const problems = nad.status?.problems ?? [];
  return problems.some((entry) => entry.node !== node && entry.generation < generation);
}

export function otherNodesIn(nad: NetworkAttachmentDefinition, node: string): readonly string[] {
  const nodes = (nad.status?.problems ?? []).map((entry) => entry.node);
  return nodes.filter((each) => each !== node).toSorted();
}

/** Replaces the node's own entry. The list is sorted, so that all nodes write the same one. */
function replaceOwnEntry(
  nad: NetworkAttachmentDefinition,
  { node, deletedNodes }: Pick<NodeFinding, "node" | "deletedNodes">,
  own: NodeProblem | undefined,
): readonly NodeProblem[] {
  const generation = generationOf(nad);
  const others = (nad.status?.problems ?? []).filter(
    (entry) =>
      entry.node !== node && entry.generation >= generation && !deletedNodes.includes(entry.node),
  );
  const hasRoom = own !== undefined && others.length < REPORTING_NODES_MAX;
  return [...others, ...(hasRoom ? [own] : [])].toSorted((one, other) =>
    one.node < other.node ? -1 : 1,
  );
}

export interface NodeFinding {
  readonly node: string;
  readonly reported: ReturnType<typeof summarizeProblems>;
  /** Whether to remove outdated entries of other nodes, instead of waiting for those nodes. */
  readonly removesStale: boolean;
  readonly deletedNodes: readonly string[];
}

/** Builds a patch of the definition's status; empty if nothing changes. */
export function problemsPatch(
  nad: NetworkAttachmentDefinition,
  { node, reported, removesStale, deletedNodes }: NodeFinding,
): readonly JsonPatchOperation[] {
  const now = nad.status?.problems ?? [];
  const before = now.find((entry) => entry.node === node);
  const own = reported && { node, ...reported, generation: generationOf(nad) };
  const problems = replaceOwnEntry(nad, { node, deletedNodes }, own);
  const after = problems.find((entry) => entry.node === node);
  const hasChanged =
    !isEqual(before, after) ||
    (removesStale && hasStaleProblems(nad, node)) ||
    now.some((entry) => deletedNodes.includes(entry.node));
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
