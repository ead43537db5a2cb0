// SPDX-License-Identifier: Apache-2.0
// Writes what the pod has to its annotations, in one write, and then forgets what is gone.
import {
  names,
  parseNetworkStatus,
  printNetworkStatus,
  printAttachmentErrors,
  type NetworkStatus,
  type JsonPatchOperation,
  type AttachmentError,
  PODS,
  type Pod,
} from "@patchbay/api";
import { isEqual, pointerToken, AppError, isAppError, mergeNetworkStatus } from "@patchbay/core";
import type { JournalRow } from "@patchbay/cni";
import { parseKey } from "@patchbay/kube";
import type { Deps } from "../../deps.ts";
import type { ActResult } from "./act.ts";
import { toOwned } from "./attachment/owned-row.ts";
import { type PodFacts, isPodOf } from "./observe.ts";

/** Text by name of the annotation; undefined: absent, or to be taken away. */
type Annotations = Readonly<Record<string, string | undefined>>;

/** The annotations of ours that must change; text that means the same is left as it is. */
export function changedAnnotations(
  current: Annotations,
  entries: readonly NetworkStatus[],
  errors: ReadonlyMap<string, AttachmentError>,
): Annotations {
  const before = current[names.NETWORK_STATUS_ANNOTATION];
  const isSame = isEqual(parseNetworkStatus(before), entries);
  const errorsText = printAttachmentErrors(errors);
  return {
    ...(isSame ? {} : { [names.NETWORK_STATUS_ANNOTATION]: printNetworkStatus(entries) }),
    ...(errorsText === current[names.ATTACHMENT_ERRORS_ANNOTATION]
      ? {}
      : { [names.ATTACHMENT_ERRORS_ANNOTATION]: errorsText }),
  };
}

/** One JSON patch that fails when the pod is another one or an annotation is no longer what was read. Source: RFC 6902. */
export function annotationPatch(
  pod: {
    readonly uid: string;
    readonly resourceVersion: string;
    readonly annotations: Annotations | undefined;
  },
  changed: Annotations,
): readonly JsonPatchOperation[] {
  const { uid, resourceVersion, annotations } = pod;
  const changes = Object.entries(changed);
  // Absence cannot be tested for, so the version is.
  const isNew = changes.some(([name]) => annotations?.[name] === undefined);
  return [
    { op: "test", path: "/metadata/uid", value: uid },
    ...(isNew
      ? [{ op: "test", path: "/metadata/resourceVersion", value: resourceVersion } as const]
      : []),
    ...(annotations === undefined
      ? [{ op: "add", path: "/metadata/annotations", value: {} } as const]
      : []),
    ...changes.flatMap(([name, text]): JsonPatchOperation[] => {
      const path = `/metadata/annotations/${pointerToken(name)}`;
      const before = annotations?.[name];
      return [
        ...(before === undefined ? [] : [{ op: "test", path, value: before } as const]),
        text === undefined ? { op: "remove", path } : { op: "add", path, value: text },
      ];
    }),
  ];
}

/** Tries against other writers of the pod; afterwards the pass fails and comes again. */
const ATTEMPTS = 5;

/** The pod as it is now; undefined when it is gone or another one has its name. */
async function findAgain(facts: PodFacts, deps: Deps): Promise<Pod | undefined> {
  const pod = await deps.store.find(PODS, parseKey(facts.key));
  return isPodOf(pod, facts.uid) ? pod : undefined;
}

/** One attempt; true when the pod says what it should, or is gone. */
async function writeOnce(
  pod: Pod,
  what: {
    readonly facts: PodFacts;
    readonly rows: readonly JournalRow[];
    readonly outcome: ActResult;
  },
  deps: Deps,
): Promise<boolean> {
  const { annotations, resourceVersion = "" } = pod.metadata;
  const said = annotations?.[names.NETWORK_STATUS_ANNOTATION];
  const current = what.facts.isNewSandbox === true ? [] : parseNetworkStatus(said);
  const now = { ...what.facts, bootId: deps.bootId };
  const owned = what.rows.map((row) => toOwned(row, now));
  const entries = mergeNetworkStatus(current, owned);
  const changed = changedAnnotations(annotations ?? {}, entries, what.outcome.errors);
  if (Object.keys(changed).length === 0) return true;
  const { uid = "" } = pod.metadata;
  const operations = annotationPatch({ uid, resourceVersion, annotations }, changed);
  try {
    const patch = { type: "json", operations } as const;
    await deps.store.patch(PODS, parseKey(what.facts.key), patch, { subresource: "status" });
    return true;
  } catch (error) {
    if (isAppError(error, "KUBE_CONFLICT")) return false;
    if (isAppError(error, "KUBE_NOT_FOUND")) return true;
    throw error;
  }
}

async function writeStatus(
  facts: PodFacts,
  what: { readonly rows: readonly JournalRow[]; readonly outcome: ActResult },
  deps: Deps,
): Promise<void> {
  let pod = facts.pod;
  for (let attempt = 1; pod !== undefined; attempt += 1) {
    if (await writeOnce(pod, { facts, ...what }, deps)) return;
    if (attempt === ATTEMPTS) {
      const object = facts.key;
      throw new AppError("KUBE_CONFLICT", { resource: "pods", object });
    }
    pod = await findAgain(facts, deps);
  }
}

/** Writes `network-status` and `attachment-errors`; rows of removed attachments go once nobody can see them any more. */
export async function report(facts: PodFacts, outcome: ActResult, deps: Deps): Promise<void> {
  const rows = await deps.journal.list(facts.uid);
  await writeStatus(facts, { rows, outcome }, deps);
  for (const row of rows) {
    if (row.state === "removed") await deps.journal.remove(row);
  }
  if (!rows.every((row) => row.state === "removed")) return;
  // What is remembered of a pod without rows must be forgotten when the pod is gone: it is looked at once more then.
  if (facts.pod !== undefined && outcome.errors.size > 0) deps.tracked.add(facts.key, facts.uid);
  else deps.tracked.remove(facts.key, facts.uid);
  if (facts.pod === undefined) deps.failures.forget(facts.uid);
}
