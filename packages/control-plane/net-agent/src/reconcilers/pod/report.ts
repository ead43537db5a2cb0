// SPDX-License-Identifier: Apache-2.0
// Reports a pass: events and log lines for each attachment, and the pod's annotations in one write.
import { names, PODS } from "@patchbay/api";
import {
  normalizeAddresses,
  type AttachmentError,
  type CniGateways,
  parseNetworkStatus,
  printNetworkStatus,
  printAttachmentErrors,
  type NetworkStatus,
  printCniGateways,
} from "@patchbay/api/annotations";
import type { JsonPatchOperation } from "@patchbay/api/json";
import type { Pod } from "@patchbay/api/kubernetes";
import { normalizeMac } from "@patchbay/api/values";
import { findNetworkStatus, listResultGateways, type JournalRow } from "@patchbay/cni";
import { isAppError, messageOf, isEqual, AppError } from "@patchbay/base";
import { isDefinitionFault } from "@patchbay/core/reasons";
import { type WantedAttachment, listInterfaces, mergeNetworkStatus } from "@patchbay/core/nics";
import { parseKey, type FailedStep } from "@patchbay/kube";
import type { CniResult, DefaultRoute, Link } from "@patchbay/core/interfaces";
import type { Deps } from "../../deps.ts";
import { listLinks, isEntryOf } from "./attachment/netns.ts";
import type { Preferences } from "./attachment/preferences.ts";
import { type PodFacts, isPodOf } from "./observe.ts";
import { interfaceNameOf, type Action } from "./step.ts";
import { pointerToken } from "@patchbay/core/status";
import { toOwned, type OwnedRow } from "./attachment/owned-row.ts";

export function reportAttached(
  { network, interfaceName: link }: WantedAttachment,
  { facts, result, durationMs }: { facts: PodFacts; result: CniResult; durationMs: number },
  deps: Deps,
): void {
  deps.log.info("attached network", { pod: facts.key, network, link, durationMs });
  if (facts.pod === undefined) return;
  const { mac, ips = [] } = findNetworkStatus(result, network, link);
  const parts = [mac, ...ips].filter((part) => part !== undefined).join(", ");
  const message = `Added ${link} from ${network}${parts === "" ? "" : ` (${parts})`}`;
  deps.events.record(facts.pod, { type: "Normal", reason: "AddedInterface", message, about: link });
}

function describeRejection({
  preferred,
  rejection,
}: {
  preferred: Preferences;
  rejection: string | undefined;
}): string {
  if (preferred.request === undefined) return "the network does not support requested addresses";
  return rejection ?? "the network assigned other addresses without an error";
}

export function reportLostAddresses(
  { network, interfaceName: link }: WantedAttachment,
  context: {
    facts: PodFacts;
    result: CniResult;
    preferred: Preferences;
    rejection: string | undefined;
  },
  deps: Deps,
): void {
  const { facts, result, preferred } = context;
  const assigned = normalizeAddresses(findNetworkStatus(result, network, link).ips);
  const lost = preferred.ips.filter((ip) => !assigned.includes(ip)).join(", ");
  if (lost === "" || facts.pod === undefined) return;
  const message = `${link} of ${network} did not get ${lost} again: ${describeRejection(context)}`;
  deps.log.info("previous addresses were not assigned again", {
    pod: facts.key,
    network,
    link,
    reason: message,
  });
  const reason = "AddressNotKept";
  deps.events.record(facts.pod, { type: "Warning", reason, message, about: link });
}

/** Reports a detach. The pod gets an event only if the network had been attached; a failed attachment was reported before. */
export function reportDetached(row: JournalRow, facts: PodFacts, deps: Deps): void {
  const { network } = row;
  const link = row.request.interfaceName;
  deps.log.info("detached network", { pod: facts.key, network, link });
  if (row.state !== "attached" || facts.pod === undefined) return;
  const message = `Removed ${link} of ${network}`;
  const reason = "RemovedInterface";
  deps.events.record(facts.pod, { type: "Normal", reason, message, about: link });
}

/** Returns the object for events: the pod, or a reference if the pod is deleted. */
function podReference(row: JournalRow, { pod }: PodFacts) {
  const metadata = { namespace: row.podNamespace, name: row.podName, uid: row.podUid };
  return pod ?? { apiVersion: "v1", kind: "Pod", metadata };
}

export function reportRemovedByForce(
  row: JournalRow,
  { facts, cause, released }: { facts: PodFacts; cause: string; released: string },
  deps: Deps,
): void {
  const { network, request } = row;
  const link = request.interfaceName;
  const message = `${link} of ${network} was removed without its plugin: ${cause}; ${released}; rules and links that the plugin created on the node may remain`;
  deps.log.warn("network detached without its plugin", {
    pod: facts.key,
    network,
    link,
    reason: message,
  });
  const reason = "RemovedInterfaceByForce";
  deps.events.record(podReference(row, facts), { type: "Warning", reason, message, about: link });
}

export function reportNicNotRestored(
  row: JournalRow,
  { facts, missing }: { facts: PodFacts; missing: string },
  deps: Deps,
): void {
  const link = row.request.interfaceName;
  deps.log.warn("failed to restore a NIC of the node", { pod: facts.key, link, reason: missing });
  const message = `${link} of ${row.network} was detached, but the node's NIC was not fully restored: ${missing}; an administrator must configure the NIC on the node`;
  const reason = "NodeNicNotRestored";
  deps.events.record(podReference(row, facts), { type: "Warning", reason, message, about: link });
}

export function reportRouteLost(
  row: JournalRow,
  context: { facts: PodFacts; route: DefaultRoute; reason: string },
  deps: Deps,
): void {
  const { facts, route, reason } = context;
  const link = row.request.interfaceName;
  deps.log.warn("failed to restore a default route", { pod: facts.key, link, reason });
  if (facts.pod === undefined) return;
  const via = route.gateway === undefined ? route.link : `${route.gateway} at ${route.link}`;
  const message = `${link} was detached, but the pod's previous default route via ${via} could not be restored: ${reason}; restart the pod if it needs one`;
  deps.events.record(facts.pod, {
    type: "Warning",
    reason: "DefaultRouteLost",
    message,
    about: link,
  });
}

/** Reports a failed step. The event uses the first message of this kind of failure, so that repeated events are counted as one. */
export function reportFailed(
  { action, summary, pauseMs, error: thrown }: FailedStep<Action, AttachmentError>,
  facts: PodFacts,
  deps: Deps,
): void {
  const link = interfaceNameOf(action);
  const isKnown = isAppError(thrown);
  deps.log[isKnown ? "warn" : "error"]("attachment failed", {
    pod: facts.key,
    step: action.kind,
    link,
    retryMs: pauseMs,
    ...(isKnown ? { code: thrown.code } : { err: thrown }),
    reason: messageOf(thrown),
  });
  if (action.kind === "add") reportOnDefinition(action.wanted, { thrown, summary }, deps);
  if (facts.pod === undefined) return;
  const reason = action.kind === "del" ? "FailedRemovingInterface" : "FailedAddingInterface";
  const message = `${link}: ${summary.message}`;
  deps.events.record(facts.pod, { type: "Warning", reason, message, about: link });
}

/** Records a definition's fault as an event of the definition. The event omits the pod, which may belong to another tenant. */
function reportOnDefinition(
  { network }: WantedAttachment,
  { thrown, summary }: { readonly thrown: unknown; readonly summary: AttachmentError },
  deps: Deps,
): void {
  const nad = isDefinitionFault(thrown) ? deps.nads.find(parseKey(network)) : undefined;
  if (nad !== undefined) deps.events.record(nad, { type: "Warning", ...summary });
}

export function reportPlanError(
  { reason, message }: AttachmentError,
  { facts, about }: { facts: PodFacts; about: string },
  deps: Deps,
): void {
  if (facts.pod === undefined) return;
  deps.events.record(facts.pod, { type: "Warning", reason, message, about });
}

export interface ActResult {
  /** Errors by name of the pod NIC, including errors of steps in backoff. */
  readonly errors: ReadonlyMap<string, AttachmentError>;
  /** Milliseconds until the first failed step may be retried; undefined if no step failed. */
  readonly retryInMs: number | undefined;
}

type Annotations = Readonly<Record<string, string | undefined>>;

interface ReportedNetworks {
  readonly entries: readonly NetworkStatus[];
  readonly errors: ReadonlyMap<string, AttachmentError>;
  readonly gateways: CniGateways;
}

/** Returns the annotations that must change. A status that differs only in formatting is not written again. */
export function findChangedAnnotations(
  current: Annotations,
  { entries, errors, gateways }: ReportedNetworks,
): Annotations {
  const currentStatus = current[names.NETWORK_STATUS_ANNOTATION];
  const isSame = isEqual(parseNetworkStatus(currentStatus), entries);
  const texts = {
    [names.ATTACHMENT_ERRORS_ANNOTATION]: printAttachmentErrors(errors),
    [names.CNI_GATEWAYS_ANNOTATION]: printCniGateways(gateways),
  };
  return {
    ...(isSame ? {} : { [names.NETWORK_STATUS_ANNOTATION]: printNetworkStatus(entries) }),
    ...Object.fromEntries(Object.entries(texts).filter(([name, text]) => current[name] !== text)),
  };
}

function listGateways(owned: readonly OwnedRow[]): CniGateways {
  const attached = owned.filter(({ state, isStale }) => state === "attached" && !isStale);
  return Object.fromEntries(
    attached.map(({ interfaceName, row: { result } }) => [
      interfaceName,
      result === undefined ? [] : listResultGateways(result, interfaceName),
    ]),
  );
}

/** Builds a JSON patch that fails if the pod was recreated or an annotation was changed meanwhile. Source: RFC 6902. */
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
  // JSON Patch cannot test that an annotation is missing, so the patch tests the resource version instead.
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
      const currentText = annotations?.[name];
      return [
        ...(currentText === undefined ? [] : [{ op: "test", path, value: currentText } as const]),
        text === undefined ? { op: "remove", path } : { op: "add", path, value: text },
      ];
    }),
  ];
}

/** Maximum number of attempts to write a status that other components write concurrently. */
const WRITE_ATTEMPTS_MAX = 5;

async function findCurrent(facts: PodFacts, deps: Deps): Promise<Pod | undefined> {
  const pod = await deps.store.find(PODS, parseKey(facts.key));
  return isPodOf(pod, facts.uid) ? pod : undefined;
}

async function listSandboxLinks(facts: PodFacts, deps: Deps): Promise<readonly Link[]> {
  try {
    return await listLinks(facts, deps);
  } catch (error) {
    if (isAppError(error, "SANDBOX_NOT_FOUND") || isAppError(error, "OS_PATH_REFUSED")) return [];
    throw error;
  }
}

function isSameNic(left: NetworkStatus, right: NetworkStatus): boolean {
  const toAddresses = ({ ips }: NetworkStatus): readonly string[] =>
    normalizeAddresses(ips).toSorted();
  return (
    left.interface === right.interface &&
    normalizeMac(left.mac ?? "") === normalizeMac(right.mac ?? "") &&
    isEqual(toAddresses(left), toAddresses(right))
  );
}

/**
 * Finds interfaces of former sandboxes whose entry in `current` describes a new sandbox. Multus attaches the same networks there, and may
 * write the status at any time during the pass.
 */
async function findRenewedInterfaces(
  current: readonly NetworkStatus[],
  { owned, facts }: { readonly owned: readonly OwnedRow[]; readonly facts: PodFacts },
  deps: Deps,
): Promise<ReadonlySet<string>> {
  const former = owned.filter(({ isStale, isAdopted }) => isStale && !isAdopted);
  const formerNames = new Set(former.flatMap(listInterfaces));
  const candidates = current.filter((entry) => formerNames.has(entry.interface ?? ""));
  if (candidates.length === 0) return new Set();
  const formerEntries = former.flatMap(({ entries }) => entries);
  const links = facts.sandbox === undefined ? undefined : await listSandboxLinks(facts, deps);
  // Without a sandbox, only a different entry proves that the runtime is creating one.
  const renewed = candidates.filter((entry) =>
    links === undefined
      ? !formerEntries.some((formerEntry) => isSameNic(formerEntry, entry))
      : links.some((link) => isEntryOf(link, entry)),
  );
  return new Set(renewed.flatMap((entry) => entry.interface ?? []));
}

/** Writes the annotations. Returns the renewed interfaces, also if the pod is deleted; undefined after a conflict. */
async function writeOnce(
  pod: Pod,
  options: {
    readonly facts: PodFacts;
    readonly rows: readonly JournalRow[];
    readonly actResult: ActResult;
  },
  deps: Deps,
): Promise<ReadonlySet<string> | undefined> {
  const { annotations, resourceVersion = "" } = pod.metadata;
  const text = annotations?.[names.NETWORK_STATUS_ANNOTATION];
  const current = options.facts.isNewSandbox === true ? [] : parseNetworkStatus(text);
  const currentPod = { ...options.facts, bootId: deps.bootId };
  const owned = options.rows.map((row) => toOwned(row, currentPod));
  const renewed = await findRenewedInterfaces(current, { owned, facts: options.facts }, deps);
  const entries = mergeNetworkStatus(current, owned, renewed);
  const { errors } = options.actResult;
  const networks = { entries, errors, gateways: listGateways(owned) };
  const changed = findChangedAnnotations(annotations ?? {}, networks);
  if (Object.keys(changed).length === 0) return renewed;
  const { uid = "" } = pod.metadata;
  const operations = buildAnnotationPatch({ uid, resourceVersion, annotations }, changed);
  try {
    const patch = { type: "json", operations } as const;
    await deps.store.patch(PODS, parseKey(options.facts.key), patch, { subresource: "status" });
    return renewed;
  } catch (error) {
    if (isAppError(error, "KUBE_CONFLICT")) return undefined;
    if (isAppError(error, "KUBE_NOT_FOUND")) return renewed;
    throw error;
  }
}

async function writeStatus(
  facts: PodFacts,
  options: { readonly rows: readonly JournalRow[]; readonly actResult: ActResult },
  deps: Deps,
): Promise<ReadonlySet<string>> {
  let pod = facts.pod;
  for (let attempt = 1; pod !== undefined; attempt += 1) {
    const renewed = await writeOnce(pod, { facts, ...options }, deps);
    if (renewed !== undefined) return renewed;
    // If the pass found no sandbox, does not retry: Multus may have written a new sandbox's status, which only the next pass reads.
    if (attempt === WRITE_ATTEMPTS_MAX || facts.missingSandbox !== undefined) {
      const object = facts.key;
      throw new AppError("KUBE_CONFLICT", { resource: "pods", object });
    }
    pod = await findCurrent(facts, deps);
  }
  return new Set();
}

/**
 * Writes the pod's annotations about attachments, and then deletes the journal rows of removed attachments. Returns whether such a row hid
 * an attachment of the runtime, which the next pass must handle.
 */
export async function report(facts: PodFacts, actResult: ActResult, deps: Deps): Promise<boolean> {
  const rows = await deps.journal.list(facts.uid);
  const renewed = await writeStatus(facts, { rows, actResult }, deps);
  const removed = rows.filter((row) => row.state === "removed");
  for (const row of removed) await deps.journal.remove(row);
  if (removed.length === rows.length) updateTracking(facts, actResult, deps);
  return removed.some(({ request }) => renewed.has(request.interfaceName));
}

function updateTracking(facts: PodFacts, actResult: ActResult, deps: Deps): void {
  // A pod without rows but with errors stays tracked, so that `failures.forget` is called when the pod is deleted.
  if (facts.pod !== undefined && actResult.errors.size > 0)
    deps.trackedPods.add(facts.key, facts.uid);
  else deps.trackedPods.remove(facts.key, facts.uid);
  if (facts.pod === undefined) deps.failures.forget(facts.uid);
}
