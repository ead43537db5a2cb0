// SPDX-License-Identifier: Apache-2.0
// One pass over one definition: what it needs of the node, what the node has, and what people are told of the difference.
import type { NetworkAttachmentDefinition } from "@patchbay/api";
import { hasStaleProblems, reasonOf, tellProblems, type NodeFinding } from "@patchbay/core";
import { after, done, parseKey, type Next } from "@patchbay/kube";
import type { DefinitionDeps, Judged } from "./deps.ts";
import { findGone } from "./gone-nodes.ts";
import { judge, type Finding } from "./observe.ts";
import { report } from "./report.ts";

/** So long an entry of another node may be of an older text, until it is taken for that of a node that is gone, milliseconds. */
const TIDY_MS = 30_000;

/** Kinds that the links had which the definition names. */
function linksSeen({ facts }: Finding): Judged["links"] {
  const { links, needs } = facts ?? {};
  const named = [...(needs?.links ?? []), ...(needs?.bridges ?? [])];
  return new Map(named.map(({ name }) => [name, links?.get(name)]));
}

interface Stale {
  readonly sinceMs: number | undefined;
  readonly isTidying: boolean;
}

/** What is to become of others' entries of an older text. */
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

/** What is written of others and of this node. */
type Said = Omit<NodeFinding, "node">;

/** A kind without status cannot be asked what it says already. */
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

/** One pass over the definition of that key. Safe to repeat. */
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
  // What was tidied up wakes it once more.
  if (sinceMs !== undefined) return isTidying ? done() : after(TIDY_MS);
  return againMs === undefined ? done() : after(againMs);
}
