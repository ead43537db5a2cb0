// SPDX-License-Identifier: Apache-2.0
// What is known of a pod's attachments: what it asks for, what we have begun, where its namespace is.
import {
  type Pod,
  type AttachmentError,
  isPodFinished,
  names,
  NETWORKS_MAX,
  parseNetworks,
  parseNetworkStatus,
  PODS,
  type NetworksAnnotation,
} from "@patchbay/api";
import {
  AppError,
  reasonOf,
  interfacesOf,
  isOwnPodInterfaceName,
  type AttachmentFacts,
  type ForeignAttachment,
} from "@patchbay/core";
import type { Sandbox } from "@patchbay/core/ports";
import type { Deps } from "../../deps.ts";
import type { JournalRow } from "@patchbay/cni";
import { parseKey } from "@patchbay/kube";
import { isKubeVirtLauncher } from "./launcher.ts";
import { entriesOf, rowsOfPass, toOwned, type OwnedRow } from "./attachment/owned-row.ts";

/** Of a static pod the API server has an image with a uid of its own. Source: kubelet types, ConfigMirrorAnnotationKey. */
const MIRROR_ANNOTATION = "kubernetes.io/config.mirror";

/**
 * Whether the pod has the uid, or is the image of a static pod that has it. Whoever makes a pod can write the annotation:
 * ask only of uids that belong to the pod's own namespace and name.
 */
export function isPodOf(pod: Pod | undefined, uid: string): pod is Pod {
  if (pod === undefined) return false;
  return pod.metadata.uid === uid || pod.metadata.annotations?.[MIRROR_ANNOTATION] === uid;
}

/** The container runtime does not answer. */
interface Silence {
  readonly error: unknown;
  /** What is told of it; the words of its first failure. */
  readonly told: AttachmentError;
}

/** What is told of an error of the runtime, once of the pod; undefined for an error that is none of it. */
function findSilence(
  { pod, uid, error }: { pod: Pod | undefined; uid: string; error: unknown },
  deps: Deps,
): Silence | undefined {
  if (reasonOf(error) !== "RuntimeUnavailable") return undefined;
  const step = { scope: uid, name: "sandbox", circumstances: "" };
  const before = deps.failures.lastOf(step);
  const { shown: told } = deps.failures.explain(step, error);
  if (pod !== undefined && told !== before) {
    deps.events.record(pod, { type: "Warning", ...told, about: "sandbox" });
  }
  return { error, told };
}

/** The sandbox, where the pod still needs one; `none` when it is too early for it. */
async function findSandbox(
  key: string,
  uid: string,
  found: { readonly pod: Pod | undefined; readonly isOver: boolean; readonly deps: Deps },
): Promise<Sandbox | undefined | "none"> {
  const sandbox = await found.deps.sandboxes.find(uid);
  // One that is of another pod is none.
  const isOwn = sandbox !== undefined && `${sandbox.pod.namespace}/${sandbox.pod.name}` === key;
  if (isOwn) return sandbox;
  if (found.isOver) return undefined;
  if (found.pod?.spec.hostNetwork === true) return undefined;
  // Before it runs, the pod's own changes tell when to look again.
  if (found.pod?.status?.phase !== "Running") return "none";
  throw new AppError("SANDBOX_NOT_FOUND", { pod: key });
}

/** One pod, or what is left of one. */
export interface PodFacts {
  /** NAMESPACE/NAME. */
  readonly key: string;
  readonly uid: string;
  /** Absent: it is gone. */
  readonly pod?: Pod;
  readonly sandbox?: Sandbox;
  /** The container runtime does not answer: nothing can be done, and what is there is taken to be as it was. */
  readonly silence?: Silence;
  readonly attachments: AttachmentFacts<OwnedRow>;
  /** The pod is gone, and its default network waits for the runtime's call. */
  readonly isLeftToRuntime?: boolean;
  /** The runtime is just making the sandbox: what the pod's status says is of another, or of nothing. */
  readonly isNewSandbox?: true;
}

const NOTHING: NetworksAnnotation = { ok: true, elements: [] };

/** `over` only when nothing of the pod can use a NIC any more. */
function stageOf(pod: Pod | undefined): AttachmentFacts<OwnedRow>["pod"] {
  if (pod === undefined || isPodFinished(pod)) return "over";
  if (pod.metadata.deletionTimestamp === undefined) return "alive";
  const containers = pod.status?.containerStatuses ?? [];
  const ended = containers.every((container) => container.state.terminated !== undefined);
  return containers.length > 0 && ended ? "over" : "ending";
}

function networksOf(pod: Pod | undefined): NetworksAnnotation {
  if (pod === undefined) return NOTHING;
  return parseNetworks(pod.metadata.annotations?.[names.NETWORKS_ANNOTATION]);
}

/** The part of the facts that the pod itself determines. */
function requestsOf(
  pod: Pod | undefined,
): Pick<AttachmentFacts<OwnedRow>, "networks" | "isHostNetwork" | "isKubeVirtLauncher"> {
  return {
    networks: networksOf(pod),
    isHostNetwork: pod?.spec.hostNetwork === true,
    ...(isKubeVirtLauncher(pod) && { isKubeVirtLauncher: true }),
  };
}

/** More entries than a runtime writes: whoever makes a pod can write any status into it, and such a one tells nothing. */
const STATUS_ENTRIES_MAX = 2 * NETWORKS_MAX;

function foreignOf(
  pod: Pod | undefined,
  rows: readonly JournalRow[],
): readonly ForeignAttachment[] {
  const own = new Set(
    rows.flatMap((row) => {
      const { interfaceName } = row.request;
      return interfacesOf({ interfaceName, entries: entriesOf(row) });
    }),
  );
  const entries = parseNetworkStatus(pod?.metadata.annotations?.[names.NETWORK_STATUS_ANNOTATION]);
  if (entries.length > STATUS_ENTRIES_MAX) return [];
  return entries.flatMap(({ name: network, interface: interfaceName, default: isDefault }) => {
    if (interfaceName === undefined || own.has(interfaceName)) return [];
    return [{ network, interfaceName, ...(isDefault === true && { isDefault }) }];
  });
}

/** Whether there is anything to decide. */
function concernsUs(pod: Pod, rows: readonly JournalRow[]): boolean {
  const networks = networksOf(pod);
  const errors = pod.metadata.annotations?.[names.ATTACHMENT_ERRORS_ANNOTATION];
  if (!networks.ok || networks.elements.length > 0 || errors !== undefined) return true;
  return (
    rows.length > 0 ||
    foreignOf(pod, rows).some(({ interfaceName }) => isOwnPodInterfaceName(interfaceName))
  );
}

/** The pod that has the uid; a cache may be behind, so absence is asked for once more before anything is torn down. */
export async function findByUid(key: string, uid: string, deps: Deps): Promise<Pod | undefined> {
  const cached = deps.pods.find(parseKey(key));
  if (isPodOf(cached, uid)) return cached;
  const live = await deps.store.find(PODS, parseKey(key));
  return isPodOf(live, uid) ? live : undefined;
}

/** The uids to look at: the pod that is there, then those of which only the journal knows. */
export function listUids(key: string, deps: Deps): readonly string[] {
  const pod = deps.pods.find(parseKey(key));
  const tracked = deps.tracked.uidsOf(key);
  const current = tracked.find((uid) => isPodOf(pod, uid)) ?? pod?.metadata.uid;
  const past = tracked.filter((uid) => uid !== current);
  return current === undefined ? past : [current, ...past];
}

/** Where the pod lives, or why nobody says. */
type Place = Pick<PodFacts, "sandbox" | "silence">;

async function findPlace(
  key: string,
  uid: string,
  found: { readonly pod: Pod | undefined; readonly isOver: boolean; readonly deps: Deps },
): Promise<Place | "none"> {
  try {
    const sandbox = await findSandbox(key, uid, found);
    return sandbox === undefined || sandbox === "none" ? (sandbox ?? {}) : { sandbox };
  } catch (error) {
    const silence = findSilence({ pod: found.pod, uid, error }, found.deps);
    if (silence === undefined) throw error;
    return { silence };
  }
}

/** The facts of one pod, by uid; undefined when there is nothing for us in it. */
export async function observe(key: string, uid: string, deps: Deps): Promise<PodFacts | undefined> {
  const pod = await findByUid(key, uid, deps);
  const rows = await deps.journal.list(uid);
  if (pod !== undefined && !concernsUs(pod, rowsOfPass(rows, false))) return undefined;
  const place = await findPlace(key, uid, { pod, isOver: stageOf(pod) === "over", deps });
  if (place === "none") return undefined;
  const isGone = pod === undefined;
  const isNothingLeft = isGone && place.sandbox === undefined && place.silence === undefined;
  const passed = rowsOfPass(rows, isNothingLeft);
  return {
    key,
    uid,
    ...(pod === undefined ? {} : { pod }),
    ...place,
    isLeftToRuntime: isGone && passed.length < rows.length,
    attachments: {
      namespace: parseKey(key).namespace ?? "",
      ...requestsOf(pod),
      owned: passed.map((row) => toOwned(row, { ...place, bootId: deps.bootId })),
      foreign: foreignOf(pod, rows),
      mode: deps.mode,
      pod: stageOf(pod),
    },
  };
}
