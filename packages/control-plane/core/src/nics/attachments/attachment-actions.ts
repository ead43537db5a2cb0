// SPDX-License-Identifier: Apache-2.0
// CNI operations that make a pod's attachments match its annotation, and their entries in `network-status`. Entries of other
// components stay unchanged. Source: NPWG 1.3 section 4.
import type {
  NetworkSelection,
  NetworksAnnotation,
  NetworkStatus,
} from "@patchbay/api/annotations";
import { normalizeMac } from "@patchbay/api/values";
import { isOwnPodInterfaceName } from "../names.ts";
import {
  annotationInvalid,
  attributesFixed,
  duplicateInterface,
  HOST_NETWORK,
  interfaceNameTaken,
  interfaceAttachedElsewhere,
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

/** An attachment in net-agent's journal. */
export interface OwnedAttachment {
  readonly network: string;
  readonly interfaceName: string;
  /** The annotation's element at ADD; unset if it was not recorded. */
  readonly recordedElement?: NetworkSelection;
  /** `begun`: ADD has not succeeded yet. `removed`: DEL succeeded but is not reported yet. */
  readonly state: "begun" | "attached" | "removed";
  /** Whether the attachment's sandbox was replaced, or was created before the node booted. */
  readonly isStale: boolean;
  /** Whether the container runtime made the attachment and removes it with the sandbox. net-agent only unplugs it. */
  readonly isAdopted: boolean;
  /** Whether the attachment uses a device of the pod, which another attachment may need. */
  readonly hasDevice?: boolean;
}

/** A NIC in the pod's status that net-agent did not attach. */
export interface ForeignAttachment extends PresentAttachment {
  /** Whether the NIC is on the pod's default network, which exists as long as the sandbox. */
  readonly isDefault?: true;
}

/**
 * Which other components attach networks. `alone`: none. `multus`: Multus, at pod creation; net-agent adopts its attachments
 * so that it can remove them. `multus-dynamic`: Multus and its dynamic networks controller; net-agent does nothing.
 */
export type AgentMode = "alone" | "multus" | "multus-dynamic";

/** Facts from which the actions of a pod are planned. `Owned` also contains what the caller needs for DEL. */
export interface AttachmentFacts<Owned extends OwnedAttachment> {
  readonly namespace: string;
  readonly networks: NetworksAnnotation;
  /** Whether the pod uses the host's network and therefore gets no attachments. */
  readonly isHostNetwork: boolean;
  /**
   * Whether the pod is KubeVirt's launcher. Its virt-handler does not rewire a running guest, so replacing a NIC would
   * leave the guest's tap without an uplink.
   */
  readonly isKubeVirtLauncher?: true;
  /** net-agent's attachments, in the order of their ADD. */
  readonly owned: readonly Owned[];
  readonly foreign: readonly ForeignAttachment[];
  readonly mode: AgentMode;
  /** `ending`: no attachments are added. `over`: the pod has no processes any more, or is deleted. */
  readonly pod: "alive" | "ending" | "over";
}

type PodProblem =
  | "AnnotationInvalid"
  | "HostNetwork"
  | "DuplicateInterface"
  | "AttributesFixed"
  | "InterfaceNameTaken";

export type AttachmentAction<Owned extends OwnedAttachment> =
  | { readonly kind: "add"; readonly wanted: WantedAttachment }
  | { readonly kind: "del"; readonly owned: Owned }
  /** Records the runtime's attachment, because the annotation no longer names it when it must be removed. */
  | { readonly kind: "adopt"; readonly foreign: ForeignAttachment }
  /** Deletes the journal entry of an attachment that the runtime removes itself. */
  | { readonly kind: "forget"; readonly owned: Owned }
  | ({
      readonly kind: "reportError";
      /** NIC in the pod; empty for the whole annotation. */
      readonly interfaceName: string;
    } & ReasonMessage<PodProblem>);

function isSame(owned: OwnedAttachment, wanted: WantedAttachment): boolean {
  return owned.network === wanted.network && owned.interfaceName === wanted.interfaceName;
}

function isAttachedNow(owned: OwnedAttachment): boolean {
  return owned.state === "attached" && !owned.isStale;
}

/** Whether KubeVirt may have connected the guest to the NIC. */
function isWired(
  owned: OwnedAttachment,
  { isKubeVirtLauncher }: Pick<AttachmentFacts<OwnedAttachment>, "isKubeVirtLauncher">,
): boolean {
  return isKubeVirtLauncher === true && isAttachedNow(owned);
}

function attributesError(
  wanted: WantedAttachment,
  owned: OwnedAttachment,
): readonly AttachmentAction<never>[] {
  if (owned.isAdopted || owned.recordedElement === undefined) return [];
  const changed = findChangedAttributes(owned.recordedElement, wanted.selection);
  if (changed.length === 0) return [];
  const { interfaceName } = wanted;
  return [{ kind: "reportError", interfaceName, ...attributesFixed(interfaceName, changed) }];
}

/** Plans the removal of an attachment. The runtime removes its own attachments with the sandbox. */
function planRemoval<Owned extends OwnedAttachment>(
  owned: Owned,
  pod: AttachmentFacts<Owned>["pod"],
): AttachmentAction<Owned> {
  const belongsToRuntime = owned.isAdopted && (owned.isStale || pod === "over");
  return { kind: belongsToRuntime ? "forget" : "del", owned };
}

/** Handles a NIC of another component with the wanted name: adopts it in mode `multus` if it is on the same network, or reports a conflict. */
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

/** Plans a wanted attachment. If another attachment of net-agent has the interface name, that one is removed first. */
function planWanted<Owned extends OwnedAttachment>(
  wanted: WantedAttachment,
  facts: AttachmentFacts<Owned>,
): readonly AttachmentAction<Owned>[] {
  const { interfaceName } = wanted;
  const sameName = facts.owned.filter(
    (owned) => owned.interfaceName === interfaceName && owned.state !== "removed",
  );
  const current = sameName.find((owned) => isSame(owned, wanted) && isAttachedNow(owned));
  if (current !== undefined) return attributesError(wanted, current);
  if (facts.pod !== "alive") return [];
  const wired = sameName.find((owned) => isWired(owned, facts));
  if (wired !== undefined) {
    const networks = { from: wired.network, to: wanted.network };
    return [{ kind: "reportError", interfaceName, ...swapNeedsMigration(interfaceName, networks) }];
  }
  const holder = facts.foreign.find((entry) => entry.interfaceName === interfaceName);
  if (sameName.length === 0 && holder !== undefined)
    return [planConflict(wanted, holder, facts.mode)];
  return [...sameName.map((owned) => planRemoval(owned, facts.pod)), { kind: "add", wanted }];
}

function planRemovals<Owned extends OwnedAttachment>(
  owned: readonly Owned[],
  pod: AttachmentFacts<Owned>["pod"],
): readonly AttachmentAction<Owned>[] {
  // In reverse order, because an attachment may depend on an earlier one.
  return owned
    .filter((entry) => entry.state !== "removed")
    .toReversed()
    .map((entry) => planRemoval(entry, pod));
}

/**
 * Adopts attachments of interfaces that were removed from the annotation while net-agent was down. NICs with other
 * names may come from the cluster's configuration and are left alone.
 */
function planOrphans<Owned extends OwnedAttachment>(
  facts: AttachmentFacts<Owned>,
  accepted: readonly WantedAttachment[],
): readonly AttachmentAction<Owned>[] {
  const isRequested = (name: string): boolean =>
    accepted.some((wanted) => wanted.interfaceName === name);
  if (facts.pod !== "alive" || facts.mode === "alone") return [];
  return facts.foreign
    .filter(
      ({ interfaceName: name, isDefault }) =>
        isDefault !== true && isOwnPodInterfaceName(name) && !isRequested(name),
    )
    .map((foreign) => ({ kind: "adopt", foreign }));
}

/**
 * Plans the operations: first the wanted attachments in annotation order, then the removal of unwanted ones. Unwanted
 * attachments with a device are removed first, so that it can be reused. An unreadable annotation changes nothing.
 */
export function planAttachmentActions<Owned extends OwnedAttachment>(
  facts: AttachmentFacts<Owned>,
): readonly AttachmentAction<Owned>[] {
  const { networks, namespace, owned } = facts;
  if (facts.pod === "over") return planRemovals(owned, facts.pod);
  if (facts.mode === "multus-dynamic") return [];
  if (!networks.ok) {
    return [{ kind: "reportError", interfaceName: "", ...annotationInvalid(networks.reason) }];
  }
  if (facts.isHostNetwork) {
    const isRequested = networks.elements.length > 0;
    return isRequested ? [{ kind: "reportError", interfaceName: "", ...HOST_NETWORK }] : [];
  }
  const own = owned.filter(isAttachedNow);
  const secondary = facts.foreign.filter(({ isDefault }) => isDefault !== true);
  const others = [...secondary, ...own.filter(({ isAdopted }) => isAdopted)];
  const all = listWanted(networks.elements, namespace, { foreign: others, requested: own });
  const { accepted, duplicates } = splitDuplicates(all);
  const steps = accepted.flatMap((wanted) => planWanted(wanted, facts));
  const removed = steps.flatMap((step) => ("owned" in step ? [step.owned] : []));
  const isRetained = (entry: Owned): boolean =>
    isAttachedNow(entry) &&
    accepted.some(
      (wanted) =>
        isSame(entry, wanted) ||
        (isWired(entry, facts) && wanted.interfaceName === entry.interfaceName),
    );
  const unwanted = owned.filter((entry) => !removed.includes(entry) && !isRetained(entry));
  const hasDevice = (entry: Owned): boolean => entry.hasDevice === true;
  return [
    ...planRemovals(unwanted.filter(hasDevice), facts.pod),
    ...steps,
    ...planRemovals(
      unwanted.filter((entry) => !hasDevice(entry)),
      facts.pod,
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

/** Whether another MAC is requested. Requesting no MAC any more is not a change. */
function isOtherMac(before: NetworkSelection, now: NetworkSelection): boolean {
  const requestedMac = normalizeMac(now.mac ?? "");
  return requestedMac !== "" && requestedMac !== normalizeMac(before.mac ?? "");
}

export function findChangedAttributes(
  before: NetworkSelection,
  now: NetworkSelection,
): readonly string[] {
  const others = FIXED_FIELDS.filter(
    (field) => !isEqual(normalizeAttribute(before[field]), normalizeAttribute(now[field])),
  );
  return [...(isOtherMac(before, now) ? ["mac"] : []), ...others];
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
 * Replaces net-agent's entries in place, and appends new entries in the order of `attachments`. Drops entries of deleted
 * sandboxes.
 */
export function mergeNetworkStatus(
  current: readonly NetworkStatus[],
  attachments: readonly ReportedAttachment[],
): readonly NetworkStatus[] {
  const present = attachments.filter(({ state, isStale }) => state === "attached" && !isStale);
  // The runtime writes entries for its own attachments. In a new sandbox these may include NICs that net-agent had removed.
  const adopted = new Set(present.filter(({ isAdopted }) => isAdopted).flatMap(listInterfaces));
  const ours = attachments.filter(({ isAdopted, state }) => !isAdopted || state === "removed");
  const own = new Set(ours.flatMap(listInterfaces).filter((name) => !adopted.has(name)));
  const written = new Set(current.map((entry) => entry.interface));
  const entries = present.flatMap(({ isAdopted, entries: all }) =>
    isAdopted ? all.filter((entry) => !written.has(entry.interface)) : all,
  );
  const retained = current.flatMap((entry) =>
    entry.interface === undefined || !own.has(entry.interface)
      ? [entry]
      : entries.filter(({ interface: name }) => name === entry.interface),
  );
  const placed = new Set(retained.map((entry) => entry.interface));
  return [...retained, ...entries.filter((entry) => !placed.has(entry.interface))];
}
