// SPDX-License-Identifier: Apache-2.0
// Plans the CNI operations that make a pod's attachments match its annotation, and updates net-agent's entries in
// `network-status`. Source: NPWG 1.3 section 4.
import type {
  NetworkSelection,
  NetworksAnnotation,
  NetworkStatus,
} from "@patchbay/api/annotations";
import { firstByKey, normalizeMac } from "@patchbay/api/values";
import { isOwnPodInterfaceName } from "../names.ts";
import {
  annotationInvalid,
  attributesFixed,
  duplicateInterface,
  HOST_NETWORK,
  interfaceNameTaken,
  interfaceAttachedElsewhere,
  networkChanged,
  swapNeedsMigration,
  type ReasonMessage,
} from "../../reasons/messages.ts";
import {
  listWanted,
  splitDuplicates,
  type PresentAttachment,
  type WantedAttachment,
} from "./wanted-attachments.ts";
import { isEqual } from "@patchbay/base";

export interface OwnedAttachment {
  readonly network: string;
  readonly interfaceName: string;
  /** Element of the pod's networks annotation that was passed to ADD. Unset if the journal does not contain it. */
  readonly recordedElement?: NetworkSelection;
  /**
   * `begun`: ADD has not succeeded, or host NICs are not restored after DEL. `removed`: DEL succeeded, but `network-status` still lists the
   * attachment.
   */
  readonly state: "begun" | "attached" | "removed";
  /** Whether the sandbox of the attachment no longer exists, because it was replaced or the node was rebooted. */
  readonly isStale: boolean;
  /** Whether the container runtime created the attachment. The runtime removes it with the sandbox; net-agent removes it on an unplug. */
  readonly isAdopted: boolean;
  /** Paths in the definition that were edited since ADD. Unset if the definition is unchanged or cannot be read. */
  readonly definitionChanges?: readonly string[];
  /** Whether the attachment uses a device that the kubelet allocated to the pod. */
  readonly hasDevice?: boolean;
}

/** A NIC in the pod's status that net-agent did not attach. */
export interface ForeignAttachment extends PresentAttachment {
  /** Whether the NIC is on the pod's default network. net-agent never adopts such a NIC. */
  readonly isDefault?: true;
}

/**
 * Components that attach networks. `alone`: net-agent only. `multus`: Multus attaches networks at pod creation, and net-agent adopts these
 * attachments so that it can remove them. `multus-dynamic`: Multus and its dynamic networks controller; net-agent attaches none.
 */
export type AgentMode = "alone" | "multus" | "multus-dynamic";

/** Input of {@link planAttachmentActions}. `Owned` adds the fields that the caller needs for DEL. */
export interface AttachmentFacts<Owned extends OwnedAttachment> {
  readonly namespace: string;
  readonly networks: NetworksAnnotation;
  /** Whether the pod uses the host's network and therefore gets no attachments. */
  readonly isHostNetwork: boolean;
  /** Whether the pod is a launcher of KubeVirt and not of Patchbay. Replacing its NIC would disconnect a running guest. */
  readonly isKubeVirtLauncher?: true;
  /** Attachments of net-agent, in the order of their ADD. */
  readonly owned: readonly Owned[];
  readonly foreign: readonly ForeignAttachment[];
  readonly mode: AgentMode;
  /**
   * `ending`: the pod is terminating or has no sandbox, and gets no new attachments. `ended`: the pod's processes have exited, or the pod
   * is deleted.
   */
  readonly podState: "alive" | "ending" | "ended";
}

type PodProblem =
  | "AnnotationInvalid"
  | "HostNetwork"
  | "DuplicateInterface"
  | "AttributesFixed"
  | "NetworkChanged"
  | "InterfaceNameTaken";

export type AttachmentAction<Owned extends OwnedAttachment> =
  | { readonly kind: "add"; readonly wanted: WantedAttachment }
  | { readonly kind: "del"; readonly owned: Owned }
  /** Records the runtime's attachment in the journal, so that net-agent can remove it later. */
  | { readonly kind: "adopt"; readonly foreign: ForeignAttachment }
  /** Deletes the journal entry of an attachment that the container runtime removes. */
  | { readonly kind: "forget"; readonly owned: Owned }
  | ({
      readonly kind: "reportError";
      /** Name of the NIC in the pod. Empty if the error concerns the whole annotation. */
      readonly interfaceName: string;
    } & ReasonMessage<PodProblem>);

function isSame(owned: OwnedAttachment, wanted: WantedAttachment): boolean {
  return owned.network === wanted.network && owned.interfaceName === wanted.interfaceName;
}

function isAttachedNow(owned: OwnedAttachment): boolean {
  return owned.state === "attached" && !owned.isStale;
}

/** Checks whether KubeVirt may have connected the guest to the NIC. If so, the NIC must not be replaced. */
function isWired(
  owned: OwnedAttachment,
  { isKubeVirtLauncher }: Pick<AttachmentFacts<OwnedAttachment>, "isKubeVirtLauncher">,
): boolean {
  return isKubeVirtLauncher === true && isAttachedNow(owned);
}

function findAttributesError(
  wanted: WantedAttachment,
  owned: OwnedAttachment,
): readonly AttachmentAction<never>[] {
  if (owned.isAdopted || owned.recordedElement === undefined) return [];
  const { interfaceName, network } = wanted;
  const changed = findChangedAttributes(owned.recordedElement, wanted.selection);
  if (changed.length > 0)
    return [{ kind: "reportError", interfaceName, ...attributesFixed(interfaceName, changed) }];
  const { definitionChanges: edited = [] } = owned;
  return edited.length === 0
    ? []
    : [{ kind: "reportError", interfaceName, ...networkChanged(network, edited) }];
}

/** Plans the removal of an attachment. An adopted attachment needs no DEL if the runtime removes it with the sandbox. */
function planRemoval<Owned extends OwnedAttachment>(
  owned: Owned,
  podState: AttachmentFacts<Owned>["podState"],
): AttachmentAction<Owned> {
  const belongsToRuntime = owned.isAdopted && (owned.isStale || podState === "ended");
  return { kind: belongsToRuntime ? "forget" : "del", owned };
}

/** In mode `multus`, plans to adopt `holder`, which has the wanted name, if it is a secondary NIC on `network`; otherwise an error. */
function planConflict(
  { network, interfaceName }: WantedAttachment,
  holder: ForeignAttachment,
  mode: AgentMode,
): AttachmentAction<never> {
  if (holder.network !== network || holder.isDefault === true) {
    return {
      kind: "reportError",
      interfaceName,
      ...interfaceNameTaken(interfaceName, holder.network),
    };
  }
  if (mode === "multus") return { kind: "adopt", foreign: holder };
  return {
    kind: "reportError",
    interfaceName,
    ...interfaceAttachedElsewhere(interfaceName, network),
  };
}

interface AttachmentsByInterface<Owned> {
  readonly owned: ReadonlyMap<string, readonly Owned[]>;
  readonly foreign: ReadonlyMap<string, ForeignAttachment>;
}

/**
 * Plans ADD for a wanted attachment, after the removal of net-agent's other attachments with the same interface name. If the wanted
 * attachment already exists, only reports attributes that changed since its ADD.
 */
function planWanted<Owned extends OwnedAttachment>(
  wanted: WantedAttachment,
  facts: AttachmentFacts<Owned>,
  byInterface: AttachmentsByInterface<Owned>,
): readonly AttachmentAction<Owned>[] {
  const { interfaceName } = wanted;
  const sameName = (byInterface.owned.get(interfaceName) ?? []).filter(
    ({ state }) => state !== "removed",
  );
  const current = sameName.find((owned) => isSame(owned, wanted) && isAttachedNow(owned));
  if (current !== undefined) return findAttributesError(wanted, current);
  if (facts.podState !== "alive") return [];
  const wiredAttachment = sameName.find((owned) => isWired(owned, facts));
  if (wiredAttachment !== undefined) {
    const networks = { from: wiredAttachment.network, to: wanted.network };
    return [{ kind: "reportError", interfaceName, ...swapNeedsMigration(interfaceName, networks) }];
  }
  const holder = byInterface.foreign.get(interfaceName);
  if (sameName.length === 0 && holder !== undefined)
    return [planConflict(wanted, holder, facts.mode)];
  return [...sameName.map((owned) => planRemoval(owned, facts.podState)), { kind: "add", wanted }];
}

function planRemovals<Owned extends OwnedAttachment>(
  owned: readonly Owned[],
  podState: AttachmentFacts<Owned>["podState"],
): readonly AttachmentAction<Owned>[] {
  // The last attachment is removed first, because it may depend on earlier attachments.
  return owned
    .filter((entry) => entry.state !== "removed")
    .toReversed()
    .map((entry) => planRemoval(entry, podState));
}

/** Plans to adopt NICs whose name Patchbay generated and that the annotation no longer requests, so that net-agent can remove them. */
function planOrphans<Owned extends OwnedAttachment>(
  facts: AttachmentFacts<Owned>,
  accepted: readonly WantedAttachment[],
): readonly AttachmentAction<Owned>[] {
  const requestedNames = new Set(accepted.map(({ interfaceName }) => interfaceName));
  if (facts.podState !== "alive" || facts.mode === "alone") return [];
  return facts.foreign
    .filter(
      ({ interfaceName: name, isDefault }) =>
        isDefault !== true && isOwnPodInterfaceName(name) && !requestedNames.has(name),
    )
    .map((foreign) => ({ kind: "adopt", foreign }));
}

/**
 * Plans the operations in this order: removals of attachments with a device, wanted attachments in the order of the annotation,
 * other removals. This order lets a wanted attachment reuse a device. If the pod has ended, plans the removal of all attachments.
 * Otherwise, if the annotation is invalid or the mode is `multus-dynamic`, plans only the removal of stale attachments.
 */
export function planAttachmentActions<Owned extends OwnedAttachment>(
  facts: AttachmentFacts<Owned>,
): readonly AttachmentAction<Owned>[] {
  const { networks, namespace, owned } = facts;
  if (facts.podState === "ended") return planRemovals(owned, facts.podState);
  const releases = planRemovals(
    owned.filter(({ isStale }) => isStale),
    facts.podState,
  );
  if (facts.mode === "multus-dynamic") return releases;
  if (!networks.ok) {
    return [
      ...releases,
      { kind: "reportError", interfaceName: "", ...annotationInvalid(networks.reason) },
    ];
  }
  if (facts.isHostNetwork) {
    const isRequested = networks.elements.length > 0;
    return isRequested ? [{ kind: "reportError", interfaceName: "", ...HOST_NETWORK }] : [];
  }
  const attached = owned.filter(isAttachedNow);
  const secondary = facts.foreign.filter(({ isDefault }) => isDefault !== true);
  const foreign = [...secondary, ...attached.filter(({ isAdopted }) => isAdopted)];
  const wantedAttachments = listWanted(networks.elements, namespace, {
    foreign,
    requested: attached,
  });
  const { accepted, duplicates } = splitDuplicates(wantedAttachments);
  const byInterface = {
    owned: Map.groupBy(owned, ({ interfaceName }) => interfaceName),
    foreign: firstByKey(facts.foreign, ({ interfaceName }) => interfaceName),
  };
  const wantedActions = accepted.flatMap((wanted) => planWanted(wanted, facts, byInterface));
  const removedAttachments = new Set(
    wantedActions.flatMap((action) => ("owned" in action ? [action.owned] : [])),
  );
  const acceptedByInterface = firstByKey(accepted, ({ interfaceName }) => interfaceName);
  const isRetained = (entry: Owned): boolean => {
    const wanted = acceptedByInterface.get(entry.interfaceName);
    const isWantedOrWired =
      wanted !== undefined && (isSame(entry, wanted) || isWired(entry, facts));
    return isWantedOrWired && isAttachedNow(entry);
  };
  const unwanted = owned.filter((entry) => !removedAttachments.has(entry) && !isRetained(entry));
  const hasDevice = (entry: Owned): boolean => entry.hasDevice === true;
  return [
    ...planRemovals(unwanted.filter(hasDevice), facts.podState),
    ...wantedActions,
    ...planRemovals(
      unwanted.filter((entry) => !hasDevice(entry)),
      facts.podState,
    ),
    ...planOrphans(facts, accepted),
    ...duplicates.map(({ interfaceName, network }): AttachmentAction<Owned> => ({
      kind: "reportError",
      interfaceName,
      ...duplicateInterface(interfaceName, network),
    })),
  ];
}

/** Attributes that plugins receive only at ADD. Source: NPWG 1.3 section 4.1.2.1. */
const FIXED_FIELDS = [
  "ips",
  "ipam-claim-reference",
  "cni-args",
  "portMappings",
  "bandwidth",
  "infiniband-guid",
  "default-route",
  "deviceID",
] as const satisfies readonly (keyof NetworkSelection)[];

function normalizeAttribute(value: unknown): unknown {
  const isEmpty = value === null || value === "" || isEqual(value, []) || isEqual(value, {});
  return isEmpty ? undefined : value;
}

/** Checks whether the element requests a MAC that it did not request at ADD. The removal of the request does not count as a change. */
function isOtherMac(recorded: NetworkSelection, requested: NetworkSelection): boolean {
  const requestedMac = normalizeMac(requested.mac ?? "");
  return requestedMac !== "" && requestedMac !== normalizeMac(recorded.mac ?? "");
}

export function findChangedAttributes(
  recorded: NetworkSelection,
  requested: NetworkSelection,
): readonly string[] {
  const otherFields = FIXED_FIELDS.filter(
    (field) => !isEqual(normalizeAttribute(recorded[field]), normalizeAttribute(requested[field])),
  );
  return [...(isOtherMac(recorded, requested) ? ["mac"] : []), ...otherFields];
}

export interface ReportedAttachment extends Pick<
  OwnedAttachment,
  "interfaceName" | "state" | "isStale" | "isAdopted"
> {
  /** Entries from the CNI result, one for each NIC in the pod. Empty until ADD has succeeded. */
  readonly entries: readonly NetworkStatus[];
}

export function listInterfaces({
  interfaceName,
  entries,
}: Pick<ReportedAttachment, "interfaceName" | "entries">): readonly string[] {
  return [...new Set([interfaceName, ...entries.flatMap((entry) => entry.interface ?? [])])];
}

/**
 * Updates net-agent's entries in `current`, appends new entries, and drops net-agent's entries whose attachment no longer exists. `renewed`
 * contains the interfaces of stale attachments whose entry already describes the current sandbox.
 */
export function mergeNetworkStatus(
  current: readonly NetworkStatus[],
  attachments: readonly ReportedAttachment[],
  renewed: ReadonlySet<string> = new Set(),
): readonly NetworkStatus[] {
  const present = attachments.filter(({ state, isStale }) => state === "attached" && !isStale);
  // Retains the current entries of adopted attachments, because the container runtime or Multus wrote these entries.
  const adoptedNames = new Set(
    present.filter(({ isAdopted }) => isAdopted).flatMap(listInterfaces),
  );
  const ownAttachments = attachments.filter(
    ({ isAdopted, state }) => !isAdopted || state === "removed",
  );
  const ownNames = new Set(
    ownAttachments.flatMap((attachment) =>
      listInterfaces(attachment).filter(
        (name) => !adoptedNames.has(name) && !(attachment.isStale && renewed.has(name)),
      ),
    ),
  );
  const currentNames = new Set(current.map((entry) => entry.interface));
  const entries = present.flatMap(({ isAdopted, entries: all }) =>
    isAdopted ? all.filter((entry) => !currentNames.has(entry.interface)) : all,
  );
  const entriesByName = Map.groupBy(entries, (entry) => entry.interface);
  const retained = current.flatMap((entry) =>
    entry.interface === undefined || !ownNames.has(entry.interface)
      ? [entry]
      : (entriesByName.get(entry.interface) ?? []),
  );
  const retainedNames = new Set(retained.map((entry) => entry.interface));
  return [...retained, ...entries.filter((entry) => !retainedNames.has(entry.interface))];
}
