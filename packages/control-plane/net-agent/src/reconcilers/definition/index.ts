// SPDX-License-Identifier: Apache-2.0
// One pass over one NetworkAttachmentDefinition: checks whether this node can create NICs of the network, and reports problems.
import {
  NODES,
  type NetworkAttachmentDefinition,
  NETWORK_ATTACHMENT_DEFINITIONS,
} from "@patchbay/api";
import { isAppError } from "@patchbay/base";
import {
  listOtherNodes,
  buildProblemsPatch,
  type NodeFinding,
  hasStaleProblems,
  summarizeProblems,
} from "@patchbay/core/nics";
import { DEFINITION_WARNINGS, reasonOf } from "@patchbay/core/reasons";
import type { DefinitionDeps, CheckedDefinition } from "./deps.ts";
import { keyOf, printKey, after, done, parseKey, type Next } from "@patchbay/kube";
import { checkDefinition, type Finding } from "./observe.ts";

/** Interval for checking whether the nodes in a definition's status still exist, in milliseconds. */
const NODE_LOOKUP_INTERVAL_MS = 3_600_000;

interface OtherNodes {
  readonly deletedNodes: readonly string[];
  readonly readMs: number | undefined;
  /** Milliseconds until the nodes are read again; undefined if the definition's status lists no other node. */
  readonly nextMs: number | undefined;
}

/** Returns whether the node is deleted. Returns false if this agent may not read nodes. */
async function isDeleted(name: string, { store }: DefinitionDeps): Promise<boolean> {
  try {
    return (await store.find(NODES, { name })) === undefined;
  } catch (error) {
    if (isAppError(error, "KUBE_FORBIDDEN")) return false;
    throw error;
  }
}

/** Finds deleted nodes that have entries in the definition's status. Reads the nodes at most once per {@link NODE_LOOKUP_INTERVAL_MS}. */
async function findDeletedNodes(
  nad: NetworkAttachmentDefinition,
  previous: CheckedDefinition | undefined,
  deps: DefinitionDeps,
): Promise<OtherNodes> {
  const nodeNames = listOtherNodes(nad, deps.nodeName);
  const lastMs = previous?.nodesReadMs;
  if (nodeNames.length === 0) return { deletedNodes: [], readMs: lastMs, nextMs: undefined };
  const nowMs = deps.clock.monotonicMs();
  const sinceMs = lastMs === undefined ? NODE_LOOKUP_INTERVAL_MS : nowMs - lastMs;
  if (sinceMs < NODE_LOOKUP_INTERVAL_MS) {
    return { deletedNodes: [], readMs: lastMs, nextMs: NODE_LOOKUP_INTERVAL_MS - sinceMs };
  }
  const deletedNodes: string[] = [];
  for (const name of nodeNames) if (await isDeleted(name, deps)) deletedNodes.push(name);
  return { deletedNodes, readMs: nowMs, nextMs: NODE_LOOKUP_INTERVAL_MS };
}

type ReportResult = "without status" | "written" | "known";

function describeProblemKind(reason: string): string {
  return DEFINITION_WARNINGS.includes(reason)
    ? "network violates the tenant policy"
    : "network is unusable on this node";
}

/** Writes the check's result to the status, logs changes, and records an event for a new problem. @throws AppError with KUBE_CONFLICT */
async function report(
  nad: NetworkAttachmentDefinition,
  finding: Omit<NodeFinding, "node">,
  { store, events, log, nodeName }: DefinitionDeps,
): Promise<ReportResult> {
  const operations = buildProblemsPatch(nad, { ...finding, node: nodeName });
  if (operations.length === 0) return "known";
  const { reported: problem } = finding;
  let reported: ReportResult = "written";
  try {
    const patch = { type: "json", operations } as const;
    await store.patch(NETWORK_ATTACHMENT_DEFINITIONS, keyOf(nad), patch, { subresource: "status" });
  } catch (error) {
    // KUBE_NOT_FOUND: the definition is deleted, or its kind has no status subresource, as in the CRD of Multus.
    if (!isAppError(error, "KUBE_NOT_FOUND")) throw error;
    reported = "without status";
  }
  const previous = nad.status?.problems?.find(({ node }) => node === nodeName);
  const network = printKey(keyOf(nad));
  if (problem === undefined) {
    if (previous !== undefined) log.info("network is usable again on this node", { network });
  } else if (previous?.message !== problem.message) {
    log.warn(describeProblemKind(problem.reason), { network, reason: problem.message });
    events.record(nad, { type: "Warning", ...problem });
  }
  return reported;
}

/** Time in ms for which this node waits before it removes outdated entries of other nodes from the definition's status.problems. */
const STALE_ENTRY_TIMEOUT_MS = 30_000;

function readLinkKinds({ facts }: Finding): CheckedDefinition["links"] {
  const { links, needs } = facts ?? {};
  const namedLinks = [...(needs?.links ?? []), ...(needs?.bridges ?? [])];
  return new Map(namedLinks.map(({ name }) => [name, links?.get(name)]));
}

interface StaleEntries {
  readonly sinceMs: number | undefined;
  readonly isRemoving: boolean;
}

function findStaleEntries(
  nad: NetworkAttachmentDefinition,
  previous: CheckedDefinition | undefined,
  { nodeName, clock }: DefinitionDeps,
): StaleEntries {
  if (!hasStaleProblems(nad, nodeName)) return { sinceMs: undefined, isRemoving: false };
  const nowMs = clock.monotonicMs();
  const sinceMs = previous?.staleSinceMs ?? nowMs;
  return { sinceMs, isRemoving: nowMs - sinceMs >= STALE_ENTRY_TIMEOUT_MS };
}

type StatusFinding = Omit<NodeFinding, "node">;

/** Reports the result of a check. If the kind has no status subresource, skips a result that was reported before. */
async function reportChanges(
  nad: NetworkAttachmentDefinition,
  finding: StatusFinding,
  {
    previous,
    deps,
  }: { readonly previous: CheckedDefinition | undefined; readonly deps: DefinitionDeps },
): Promise<Pick<CheckedDefinition, "reported" | "isWithoutStatus">> {
  const text = finding.reported && JSON.stringify(finding.reported);
  if (previous?.isWithoutStatus === true && previous.reported === text) return previous;
  const reported = await report(nad, finding, deps);
  return { reported: text, isWithoutStatus: reported === "without status" };
}

export async function reconcileDefinition(key: string, deps: DefinitionDeps): Promise<Next> {
  const nad = deps.nads.find(parseKey(key));
  if (nad === undefined) {
    deps.checkedDefinitions.delete(key);
    return done();
  }
  const last = deps.checkedDefinitions.get(key);
  const previous = last?.uid === nad.metadata.uid ? last : undefined;
  const finding = await checkDefinition(key, deps);
  const problem = summarizeProblems(key, finding.problems);
  const { sinceMs, isRemoving } = findStaleEntries(nad, previous, deps);
  const { deletedNodes, readMs, nextMs } = await findDeletedNodes(nad, previous, deps);
  const written = await reportChanges(
    nad,
    { reported: problem, removesStale: isRemoving, deletedNodes },
    { previous, deps },
  );
  deps.checkedDefinitions.set(key, {
    uid: nad.metadata.uid,
    reported: written.reported,
    isWithoutStatus: written.isWithoutStatus,
    reasons: finding.problems.map((each) => reasonOf(each) ?? "CniFailed"),
    links: readLinkKinds(finding),
    fullLeaseDirectories: finding.fullLeaseDirectories,
    isUnfitForGuests: finding.facts?.needs.unfitPlugin !== undefined,
    staleSinceMs: isRemoving ? undefined : sinceMs,
    nodesReadMs: readMs,
  });
  // After the removal of stale entries, no timer is needed, because the written status triggers the next pass.
  if (sinceMs !== undefined) return isRemoving ? done() : after(STALE_ENTRY_TIMEOUT_MS);
  return nextMs === undefined ? done() : after(nextMs);
}
