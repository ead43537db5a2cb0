// SPDX-License-Identifier: Apache-2.0
// Writes the pod's annotations in one write, and then deletes the rows of removed attachments.
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
import { isEqual, AppError, isAppError } from "@patchbay/base";
import { pointerToken } from "@patchbay/core/status";
import { mergeNetworkStatus } from "@patchbay/core/nics";
import type { JournalRow } from "@patchbay/cni";
import { parseKey } from "@patchbay/kube";
import type { Deps } from "../../deps.ts";
import type { ActResult } from "./act.ts";
import { toOwned } from "./attachment/owned-row.ts";
import { type PodFacts, isPodOf } from "./observe.ts";

type Annotations = Readonly<Record<string, string | undefined>>;

/** The annotations that must change. Text with the same meaning stays. */
export function findChangedAnnotations(
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

/** A JSON patch that fails if the pod is another one or if an annotation has changed. Source: RFC 6902. */
export function buildAnnotationPatch(
  pod: {
    readonly uid: string;
    readonly resourceVersion: string;
    readonly annotations: Annotations | undefined;
  },
  changed: Annotations,
): readonly JsonPatchOperation[] {
  const { uid, resourceVersion, annotations } = pod;
  const changes = Object.entries(changed);
  // A JSON patch cannot test for a missing field, so it tests the version.
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

/** Attempts against concurrent writers. After that the pass fails and is retried. */
const WRITE_ATTEMPTS_MAX = 5;

async function findCurrent(facts: PodFacts, deps: Deps): Promise<Pod | undefined> {
  const pod = await deps.store.find(PODS, parseKey(facts.key));
  return isPodOf(pod, facts.uid) ? pod : undefined;
}

/** Returns true when the pod has the right annotations or is gone. */
async function writeOnce(
  pod: Pod,
  options: {
    readonly facts: PodFacts;
    readonly rows: readonly JournalRow[];
    readonly actResult: ActResult;
  },
  deps: Deps,
): Promise<boolean> {
  const { annotations, resourceVersion = "" } = pod.metadata;
  const text = annotations?.[names.NETWORK_STATUS_ANNOTATION];
  const current = options.facts.isNewSandbox === true ? [] : parseNetworkStatus(text);
  const now = { ...options.facts, bootId: deps.bootId };
  const owned = options.rows.map((row) => toOwned(row, now));
  const entries = mergeNetworkStatus(current, owned);
  const changed = findChangedAnnotations(annotations ?? {}, entries, options.actResult.errors);
  if (Object.keys(changed).length === 0) return true;
  const { uid = "" } = pod.metadata;
  const operations = buildAnnotationPatch({ uid, resourceVersion, annotations }, changed);
  try {
    const patch = { type: "json", operations } as const;
    await deps.store.patch(PODS, parseKey(options.facts.key), patch, { subresource: "status" });
    return true;
  } catch (error) {
    if (isAppError(error, "KUBE_CONFLICT")) return false;
    if (isAppError(error, "KUBE_NOT_FOUND")) return true;
    throw error;
  }
}

async function writeStatus(
  facts: PodFacts,
  options: { readonly rows: readonly JournalRow[]; readonly actResult: ActResult },
  deps: Deps,
): Promise<void> {
  let pod = facts.pod;
  for (let attempt = 1; pod !== undefined; attempt += 1) {
    if (await writeOnce(pod, { facts, ...options }, deps)) return;
    if (attempt === WRITE_ATTEMPTS_MAX) {
      const object = facts.key;
      throw new AppError("KUBE_CONFLICT", { resource: "pods", object });
    }
    pod = await findCurrent(facts, deps);
  }
}

/** Deletes rows of removed attachments once the status no longer shows them. */
export async function report(facts: PodFacts, actResult: ActResult, deps: Deps): Promise<void> {
  const rows = await deps.journal.list(facts.uid);
  await writeStatus(facts, { rows, actResult }, deps);
  for (const row of rows) {
    if (row.state === "removed") await deps.journal.remove(row);
  }
  if (!rows.every((row) => row.state === "removed")) return;
  // A pod without rows but with errors stays tracked, so that its failures are dropped when it is deleted.
  if (facts.pod !== undefined && actResult.errors.size > 0) deps.tracked.add(facts.key, facts.uid);
  else deps.tracked.remove(facts.key, facts.uid);
  if (facts.pod === undefined) deps.failures.forget(facts.uid);
}
