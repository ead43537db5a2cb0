// SPDX-License-Identifier: Apache-2.0
// Which CNI operations bring a pod from what the node agent has begun to what the pod asks for. Source: NPWG 1.3 section 4.
import { normalizeMac, type NetworksAnnotation, type NetworkSelection } from "@patchbay/api";

/** One attachment that a pod asks for, with its defaults filled in. */
export interface WantedAttachment {
  /** NAMESPACE/NAME of the network definition. */
  readonly network: string;
  /** NIC in the pod. */
  readonly interfaceName: string;
  readonly selection: NetworkSelection;
}

/** One attachment that the node agent has begun, as its journal has it. */
export interface OwnedAttachment {
  readonly network: string;
  readonly interfaceName: string;
  /** The MAC that was asked for. */
  readonly mac?: string;
  /** `begun`: ADD was not seen to succeed. `removed`: DEL has succeeded and is still to be reported. */
  readonly state: "begun" | "attached" | "removed";
  /** Its sandbox is not the pod's, or was made before the node was started. */
  readonly isStale: boolean;
}

/** What a pod's attachments are decided from; `Owned` carries what the caller needs for DEL. */
export interface AttachmentFacts<Owned extends OwnedAttachment> {
  readonly namespace: string;
  readonly networks: NetworksAnnotation;
  /** In the order in which they were begun. */
  readonly owned: readonly Owned[];
  /** NICs that somebody else attached and reported. */
  readonly foreign: readonly string[];
  /** `ending`: nothing new. `over`: no process of the pod runs any more, or it is gone. */
  readonly pod: "alive" | "ending" | "over";
}

/** One step, in the order in which it is taken. */
export type AttachmentAction<Owned extends OwnedAttachment> =
  | { readonly kind: "add"; readonly wanted: WantedAttachment }
  | { readonly kind: "del"; readonly owned: Owned }
  | {
      readonly kind: "reportError";
      /** NIC in the pod; empty for the annotation as a whole. */
      readonly interfaceName: string;
      readonly reason: "AnnotationInvalid" | "DuplicateInterface" | "AttributesFixed";
      readonly message: string;
    };

/** Fills in the pod's namespace, and `net<index>` where no interface is named; the default network has index 0. Source: Multus getIfname. */
function toWanted(selection: NetworkSelection, index: number, namespace: string): WantedAttachment {
  const { name, namespace: own = "", interface: asked = "", interfaceRequest = "" } = selection;
  const link = asked === "" ? interfaceRequest : asked;
  return {
    network: `${own === "" ? namespace : own}/${name}`,
    interfaceName: link === "" ? `net${String(index + 1)}` : link,
    selection,
  };
}

function isSame(owned: OwnedAttachment, wanted: WantedAttachment): boolean {
  return owned.network === wanted.network && owned.interfaceName === wanted.interfaceName;
}

/** Attached, in the pod that is there now. */
function isInPlace(owned: OwnedAttachment): boolean {
  return owned.state === "attached" && !owned.isStale;
}

function attributesError(
  wanted: WantedAttachment,
  owned: OwnedAttachment,
): readonly AttachmentAction<never>[] {
  const asked = normalizeMac(wanted.selection.mac ?? "");
  if (asked === "" || asked === normalizeMac(owned.mac ?? "")) return [];
  const message = `the MAC address of a live attachment cannot become ${asked}; remove it and add it again`;
  const { interfaceName } = wanted;
  return [{ kind: "reportError", interfaceName, reason: "AttributesFixed", message }];
}

/** What one wanted attachment needs; a name that is held by another attachment of ours is freed first. */
function planOne<Owned extends OwnedAttachment>(
  wanted: WantedAttachment,
  facts: AttachmentFacts<Owned>,
): readonly AttachmentAction<Owned>[] {
  const rows = facts.owned.filter(
    (owned) => owned.interfaceName === wanted.interfaceName && owned.state !== "removed",
  );
  const current = rows.find((owned) => isSame(owned, wanted) && isInPlace(owned));
  if (current !== undefined) return attributesError(wanted, current);
  if (rows.length === 0 && facts.foreign.includes(wanted.interfaceName)) return [];
  if (facts.pod !== "alive") return [];
  return [...rows.map((owned) => ({ kind: "del", owned }) as const), { kind: "add", wanted }];
}

function delAll<Owned extends OwnedAttachment>(
  owned: readonly Owned[],
): readonly AttachmentAction<Owned>[] {
  // The last made goes first: it may stand on an earlier one.
  return owned
    .filter((entry) => entry.state !== "removed")
    .toReversed()
    .map((entry) => ({ kind: "del", owned: entry }));
}

interface Split {
  readonly accepted: readonly WantedAttachment[];
  readonly duplicates: readonly WantedAttachment[];
}

/** Of several attachments with one interface name only the first counts. */
function splitDuplicates(wanted: readonly WantedAttachment[]): Split {
  const isFirst = (entry: WantedAttachment, index: number): boolean =>
    wanted.findIndex((other) => other.interfaceName === entry.interfaceName) === index;
  return {
    accepted: wanted.filter(isFirst),
    duplicates: wanted.filter((entry, index) => !isFirst(entry, index)),
  };
}

/**
 * The operations in order: what is wanted first, in the order of the annotation, then what is no longer wanted. An
 * annotation that cannot be read changes nothing. Attachments that the agent did not begin are never touched.
 */
export function planAttachmentActions<Owned extends OwnedAttachment>(
  facts: AttachmentFacts<Owned>,
): readonly AttachmentAction<Owned>[] {
  const { networks, namespace, owned } = facts;
  if (facts.pod === "over") return delAll(owned);
  if (!networks.ok) {
    const message = `the annotation of networks cannot be read: ${networks.reason}`;
    return [{ kind: "reportError", interfaceName: "", reason: "AnnotationInvalid", message }];
  }
  const all = networks.elements.map((element, index) => toWanted(element, index, namespace));
  const { accepted, duplicates } = splitDuplicates(all);
  const steps = accepted.flatMap((wanted) => planOne(wanted, facts));
  const freed = steps.flatMap((step) => (step.kind === "del" ? [step.owned] : []));
  const stays = (entry: Owned): boolean =>
    isInPlace(entry) && accepted.some((wanted) => isSame(entry, wanted));
  const unwanted = owned.filter((entry) => !freed.includes(entry) && !stays(entry));
  return [
    ...steps,
    ...delAll(unwanted),
    ...duplicates.map(({ interfaceName, network }): AttachmentAction<Owned> => ({
      kind: "reportError",
      interfaceName,
      reason: "DuplicateInterface",
      message: `interface ${interfaceName} is asked for twice; ${network} is left out`,
    })),
  ];
}
