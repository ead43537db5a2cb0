// SPDX-License-Identifier: Apache-2.0
// What the journal is told of a new attachment.
import type { JournalRow } from "@patchbay/cni";
import type { AttachmentRequest, Sandbox } from "@patchbay/core/ports";
import type { Deps } from "../../../deps.ts";
import type { PodFacts } from "../observe.ts";

/** A row of the sandbox that is there now, in order behind those that the pod has: later attachments may stand on earlier ones. */
export async function newRow(
  { network }: { readonly network: string },
  what: {
    readonly facts: PodFacts;
    readonly sandbox: Sandbox;
    readonly request: AttachmentRequest;
  },
  deps: Deps,
): Promise<Omit<JournalRow, "state">> {
  const { facts, sandbox, request } = what;
  const rows = await deps.journal.list(facts.uid);
  return {
    podUid: facts.uid,
    podNamespace: facts.attachments.namespace,
    podName: facts.key.slice(facts.attachments.namespace.length + 1),
    network,
    request,
    netnsInode: sandbox.netnsInode,
    bootId: deps.bootId,
    sequence: Math.max(0, ...rows.map((other) => other.sequence)) + 1,
  };
}

/** Writes the row; from now on its pod is known to have some. */
export async function writeRow(row: JournalRow, facts: PodFacts, deps: Deps): Promise<void> {
  await deps.journal.write(row);
  deps.tracked.add(facts.key, facts.uid);
}
