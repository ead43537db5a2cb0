// SPDX-License-Identifier: Apache-2.0
// Which nodes are no more that a definition's status tells something of? They cannot take it away themselves, so that any
// agent does; the nodes of a cluster are not watched for it.
import { NODES, type NetworkAttachmentDefinition } from "@patchbay/api";
import { isAppError, otherNodesIn } from "@patchbay/core";
import type { DefinitionDeps, Judged } from "./deps.ts";

/** So long nobody is asked again about the nodes of one definition, milliseconds. */
const ASK_EVERY_MS = 3_600_000;

/** What is known of other nodes. */
interface OtherNodes {
  readonly gone: readonly string[];
  /** When they were asked for; undefined: never. */
  readonly askedMs: number | undefined;
  /** When to look again, milliseconds; undefined: no other node tells anything. */
  readonly againMs: number | undefined;
}

/** Who may not ask knows of none. */
async function isGone(name: string, { store }: DefinitionDeps): Promise<boolean> {
  try {
    return (await store.find(NODES, { name })) === undefined;
  } catch (error) {
    if (isAppError(error, "KUBE_FORBIDDEN")) return false;
    throw error;
  }
}

/** Asks for the nodes that others' entries name, once an hour. */
export async function findGone(
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
