// SPDX-License-Identifier: Apache-2.0
// One pass over one definition: checks what it needs against what the node has, and reports the difference.
import {
  NODES,
  type NetworkAttachmentDefinition,
  NETWORK_ATTACHMENT_DEFINITIONS,
} from "@patchbay/api";
import {
  isAppError,
  otherNodesIn,
  problemsPatch,
  type NodeFinding,
  hasStaleProblems,
  reasonOf,
  tellProblems,
} from "@patchbay/core";
import type { DefinitionDeps, Judged } from "./deps.ts";
import { keyOf, printKey, after, done, parseKey, type Next } from "@patchbay/kube";
import { judge, type Finding } from "./observe.ts";

/** Interval for looking up the nodes that a definition's status names, milliseconds. */
const ASK_EVERY_MS = 3_600_000;

interface OtherNodes {
  readonly gone: readonly string[];
  /** When they were last looked up; undefined for never. */
  readonly askedMs: number | undefined;
  /** Milliseconds until the next lookup; undefined if no other node has an entry. */
  readonly againMs: number | undefined;
}

/** Without permission to read nodes, none counts as deleted. */
async function isGone(name: string, { store }: DefinitionDeps): Promise<boolean> {
  try {
    return (await store.find(NODES, { name })) === undefined;
  } catch (error) {
    if (isAppError(error, "KUBE_FORBIDDEN")) return false;
    throw error;
  }
}

/** Finds deleted nodes with entries in the status, at most once an hour. They cannot remove their entries, so any agent does. */
async function findGone(
  nad: NetworkAttachmentDefinition,
  before: Judged | undefined,
  deps: DefinitionDeps,
): Promise<OtherNodes> {
  const names = otherNodesIn(nad, deps.nodeName);
  const lastMs = before?.nodesAskedMs;
  if (names.length === 0) return { gone: [], askedMs: lastMs, againMs: undefined };
  const nowMs = deps.clock.monotonicMs();
  const sinceMs = lastMs === undefined ? ASK_EVERY_MS : nowMs - lastMs;
  if (sinceMs < ASK_EVERY_MS) {
    return { gone: [], askedMs: lastMs, againMs: ASK_EVERY_MS - sinceMs };
  }
  const gone: string[] = [];
  for (const name of names) if (await isGone(name, deps)) gone.push(name);
  return { gone, askedMs: nowMs, againMs: ASK_EVERY_MS };
}

/** Whether the kind has no status, or its status was written or up to date. */
type Reported = "without status" | "written" | "known";

function titleOf(reason: string): string {
  return reason === "DefinitionTolerated"
    ? "network is used against the tenant policy"
    : "network cannot be used";
}

/**
 * Writes the finding.
 * @throws AppError with KUBE_CONFLICT if another node has written first; the caller reads again
 */
async function report(
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
    // Either the definition is deleted, or its kind has no status, like that of Multus.
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

/** After this time an outdated entry counts as one of a deleted node, milliseconds. */
const TIDY_MS = 30_000;

/** Kinds of the links that the definition names. */
function linksSeen({ facts }: Finding): Judged["links"] {
  const { links, needs } = facts ?? {};
  const named = [...(needs?.links ?? []), ...(needs?.bridges ?? [])];
  return new Map(named.map(({ name }) => [name, links?.get(name)]));
}

interface Stale {
  readonly sinceMs: number | undefined;
  readonly isTidying: boolean;
}

/** Whether outdated entries of other nodes should be removed. */
function staleOf(
  nad: NetworkAttachmentDefinition,
  before: Judged | undefined,
  { nodeName, clock }: DefinitionDeps,
): Stale {
  if (!hasStaleProblems(nad, nodeName)) return { sinceMs: undefined, isTidying: false };
  const nowMs = clock.monotonicMs();
  const sinceMs = before?.staleSinceMs ?? nowMs;
  return { sinceMs, isTidying: nowMs - sinceMs >= TIDY_MS };
}

type Said = Omit<NodeFinding, "node">;

/** Writes the finding. For a kind without status, the last report is remembered instead of read. */
async function say(
  nad: NetworkAttachmentDefinition,
  finding: Said,
  { before, deps }: { readonly before: Judged | undefined; readonly deps: DefinitionDeps },
): Promise<Pick<Judged, "told" | "isWithoutStatus">> {
  const words = finding.told && JSON.stringify(finding.told);
  if (before?.isWithoutStatus === true && before.told === words) return before;
  const reported = await report(nad, finding, deps);
  return { told: words, isWithoutStatus: reported === "without status" };
}

/** One pass over the definition with that key. Safe to repeat. */
export async function reconcileDefinition(key: string, deps: DefinitionDeps): Promise<Next> {
  const nad = deps.nads.find(parseKey(key));
  if (nad === undefined) {
    deps.judged.delete(key);
    return done();
  }
  const last = deps.judged.get(key);
  const before = last?.uid === nad.metadata.uid ? last : undefined;
  const finding = await judge(key, deps);
  const told = tellProblems(key, finding.problems); // pure
  const { sinceMs, isTidying } = staleOf(nad, before, deps);
  const { gone, askedMs, againMs } = await findGone(nad, before, deps);
  const said = await say(nad, { told, isTidying, gone }, { before, deps });
  deps.judged.set(key, {
    uid: nad.metadata.uid,
    told: said.told,
    isWithoutStatus: said.isWithoutStatus,
    reasons: finding.problems.map((problem) => reasonOf(problem) ?? "CniFailed"),
    links: linksSeen(finding),
    exhausted: finding.exhausted,
    isUnfitForGuests: finding.facts?.needs.unfitForGuests !== undefined,
    staleSinceMs: isTidying ? undefined : sinceMs,
    nodesAskedMs: askedMs,
  });
  // The removal of entries wakes this key again.
  if (sinceMs !== undefined) return isTidying ? done() : after(TIDY_MS);
  return againMs === undefined ? done() : after(againMs);
}
