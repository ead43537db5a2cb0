// SPDX-License-Identifier: Apache-2.0
// Which CNI operations bring a pod from what net-agent has begun to what the pod asks for. Source: NPWG 1.3 section 4.
import { normalizeMac, type NetworkSelection, type NetworksAnnotation } from "@patchbay/api";
import { isOwnPodInterfaceName } from "../../iface/names.ts";
import {
  annotationInvalid,
  attributesFixed,
  duplicateInterface,
  HOST_NETWORK,
  interfaceHeld,
  interfaceOfOthers,
  swapNeedsMigration,
  type Told,
} from "../../reasons/words.ts";
import {
  listWanted,
  splitDuplicates,
  type PresentAttachment,
  type WantedAttachment,
} from "./wanted-attachments.ts";
import { isEqual } from "../../equal.ts";

/** One attachment that net-agent has begun, as its journal has it. */
export interface OwnedAttachment {
  readonly network: string;
  readonly interfaceName: string;
  /** What it was asked for with; absent: nobody has noted it. */
  readonly asked?: NetworkSelection;
  /** `begun`: ADD was not seen to succeed. `removed`: DEL has succeeded and is still to be reported. */
  readonly state: "begun" | "attached" | "removed";
  /** Its sandbox is not the pod's, or was made before the node was started. */
  readonly isStale: boolean;
  /** The pod's runtime has made it, and will take it away with the sandbox; only an unplug is ours. */
  readonly isAdopted: boolean;
  /** It has a device that the kubelet has given to the pod, which may be needed for another attachment. */
  readonly hasDevice?: boolean;
}

/** A NIC that somebody else attached, as the pod's status tells it. */
export interface ForeignAttachment extends PresentAttachment {
  /** It is of the pod's default network, whatever its name: it came with the sandbox and goes with it. */
  readonly isDefault?: true;
}

/**
 * Who attaches networks beside net-agent. `alone`: nobody. `multus`: Multus, when a pod is made; what it made is adopted, so
 * that it can be removed. `multus-dynamic`: Multus and its dynamic networks controller, which leave nothing to be done for
 * a pod that lives.
 */
export type AgentMode = "alone" | "multus" | "multus-dynamic";

/** What a pod's attachments are decided from; `Owned` carries what the caller needs for DEL. */
export interface AttachmentFacts<Owned extends OwnedAttachment> {
  readonly namespace: string;
  readonly networks: NetworksAnnotation;
  /** The pod lives in the network of its node, where nothing is ever attached. */
  readonly isHostNetwork: boolean;
  /**
   * The pod is a launcher of KubeVirt, whose virt-handler does not connect a running guest to another NIC: a DEL and an ADD
   * under one name would leave the guest's tap without an uplink.
   */
  readonly isKubeVirtLauncher?: true;
  /** In the order in which they were begun. */
  readonly owned: readonly Owned[];
  /** What somebody else attached and reported. */
  readonly foreign: readonly ForeignAttachment[];
  readonly mode: AgentMode;
  /** `ending`: nothing new. `over`: no process of the pod runs any more, or it is gone. */
  readonly pod: "alive" | "ending" | "over";
}

/** What only a change of the pod can mend. */
type Finding =
  | "AnnotationInvalid"
  | "HostNetwork"
  | "DuplicateInterface"
  | "AttributesFixed"
  | "InterfaceNameTaken";

/** One step, in the order in which it is taken. */
export type AttachmentAction<Owned extends OwnedAttachment> =
  | { readonly kind: "add"; readonly wanted: WantedAttachment }
  | { readonly kind: "del"; readonly owned: Owned }
  /** Takes note of what the pod's runtime has made, since the annotation does not name it any more when it is to go. */
  | { readonly kind: "adopt"; readonly foreign: ForeignAttachment }
  /** Takes no note any more of what the runtime takes away itself. */
  | { readonly kind: "forget"; readonly owned: Owned }
  | ({
      readonly kind: "reportError";
      /** NIC in the pod; empty for the annotation as a whole. */
      readonly interfaceName: string;
    } & Told<Finding>);

function isSame(owned: OwnedAttachment, wanted: WantedAttachment): boolean {
  return owned.network === wanted.network && owned.interfaceName === wanted.interfaceName;
}

/** Attached, in the pod that is there now. */
function isInPlace(owned: OwnedAttachment): boolean {
  return owned.state === "attached" && !owned.isStale;
}

/** Whether a component that does not rewire guests may have connected a guest to the NIC. */
function isWired(
  owned: OwnedAttachment,
  { isKubeVirtLauncher }: Pick<AttachmentFacts<OwnedAttachment>, "isKubeVirtLauncher">,
): boolean {
  return isKubeVirtLauncher === true && isInPlace(owned);
}

function attributesError(
  wanted: WantedAttachment,
  owned: OwnedAttachment,
): readonly AttachmentAction<never>[] {
  if (owned.isAdopted || owned.asked === undefined) return [];
  const changed = changedAttributes(owned.asked, wanted.selection);
  if (changed.length === 0) return [];
  const { interfaceName } = wanted;
  return [{ kind: "reportError", interfaceName, ...attributesFixed(interfaceName, changed) }];
}

/** How an attachment goes: what the runtime has made goes with its sandbox, by the runtime. */
function leave<Owned extends OwnedAttachment>(
  owned: Owned,
  pod: AttachmentFacts<Owned>["pod"],
): AttachmentAction<Owned> {
  const isRuntimes = owned.isAdopted && (owned.isStale || pod === "over");
  return { kind: isRuntimes ? "forget" : "del", owned };
}

/** What an attachment needs whose name somebody else's has: that is it, or the name is not to be had. */
function planHeld(
  { network, interfaceName }: WantedAttachment,
  holder: ForeignAttachment,
  mode: AgentMode,
): AttachmentAction<never> {
  if (holder.network !== network || holder.isDefault === true) {
    return { kind: "reportError", interfaceName, ...interfaceHeld(interfaceName, holder.network) };
  }
  if (mode === "multus") return { kind: "adopt", foreign: holder };
  return { kind: "reportError", interfaceName, ...interfaceOfOthers(interfaceName, network) };
}

/** What one wanted attachment needs; a name that is held by another attachment of ours is freed first. */
function planOne<Owned extends OwnedAttachment>(
  wanted: WantedAttachment,
  facts: AttachmentFacts<Owned>,
): readonly AttachmentAction<Owned>[] {
  const { interfaceName } = wanted;
  const rows = facts.owned.filter(
    (owned) => owned.interfaceName === interfaceName && owned.state !== "removed",
  );
  const current = rows.find((owned) => isSame(owned, wanted) && isInPlace(owned));
  if (current !== undefined) return attributesError(wanted, current);
  if (facts.pod !== "alive") return [];
  const wired = rows.find((owned) => isWired(owned, facts));
  if (wired !== undefined) {
    const networks = { from: wired.network, to: wanted.network };
    return [{ kind: "reportError", interfaceName, ...swapNeedsMigration(interfaceName, networks) }];
  }
  const holder = facts.foreign.find((entry) => entry.interfaceName === interfaceName);
  if (rows.length === 0 && holder !== undefined) return [planHeld(wanted, holder, facts.mode)];
  return [...rows.map((owned) => leave(owned, facts.pod)), { kind: "add", wanted }];
}

function leaveAll<Owned extends OwnedAttachment>(
  owned: readonly Owned[],
  pod: AttachmentFacts<Owned>["pod"],
): readonly AttachmentAction<Owned>[] {
  // The last made goes first: it may stand on an earlier one.
  return owned
    .filter((entry) => entry.state !== "removed")
    .toReversed()
    .map((entry) => leave(entry, pod));
}

/**
 * What was made for a launcher's iface, by its name, and is asked for no longer: it went while nobody had taken note.
 * A NIC of another name may be one that the cluster gives to every pod.
 */
function planOrphans<Owned extends OwnedAttachment>(
  facts: AttachmentFacts<Owned>,
  accepted: readonly WantedAttachment[],
): readonly AttachmentAction<Owned>[] {
  const isAsked = (name: string): boolean =>
    accepted.some((wanted) => wanted.interfaceName === name);
  if (facts.pod !== "alive" || facts.mode === "alone") return [];
  return facts.foreign
    .filter(
      ({ interfaceName: name, isDefault }) =>
        isDefault !== true && isOwnPodInterfaceName(name) && !isAsked(name),
    )
    .map((foreign) => ({ kind: "adopt", foreign }));
}

/**
 * The operations in order: what is wanted first, in the order of the annotation, then what is no longer wanted, but for what
 * has a device, which goes before. An annotation that cannot be read changes nothing. Attachments that the annotation has never asked for are not touched.
 */
export function planAttachmentActions<Owned extends OwnedAttachment>(
  facts: AttachmentFacts<Owned>,
): readonly AttachmentAction<Owned>[] {
  const { networks, namespace, owned } = facts;
  if (facts.pod === "over") return leaveAll(owned, facts.pod);
  if (facts.mode === "multus-dynamic") return [];
  if (!networks.ok) {
    return [{ kind: "reportError", interfaceName: "", ...annotationInvalid(networks.reason) }];
  }
  if (facts.isHostNetwork) {
    const isAsked = networks.elements.length > 0;
    return isAsked ? [{ kind: "reportError", interfaceName: "", ...HOST_NETWORK }] : [];
  }
  const own = owned.filter(isInPlace);
  const secondary = facts.foreign.filter(({ isDefault }) => isDefault !== true);
  const others = [...secondary, ...own.filter(({ isAdopted }) => isAdopted)];
  const all = listWanted(networks.elements, namespace, { others, own });
  const { accepted, duplicates } = splitDuplicates(all);
  const steps = accepted.flatMap((wanted) => planOne(wanted, facts));
  const freed = steps.flatMap((step) => ("owned" in step ? [step.owned] : []));
  const stays = (entry: Owned): boolean =>
    isInPlace(entry) &&
    accepted.some(
      (wanted) =>
        isSame(entry, wanted) ||
        (isWired(entry, facts) && wanted.interfaceName === entry.interfaceName),
    );
  const unwanted = owned.filter((entry) => !freed.includes(entry) && !stays(entry));
  const hasDevice = (entry: Owned): boolean => entry.hasDevice === true;
  return [
    ...leaveAll(unwanted.filter(hasDevice), facts.pod),
    ...steps,
    ...leaveAll(
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

/** What plugins are asked for beside the MAC, by the names of the annotation. */
const FIELDS = [
  "ips",
  "ipam-claim-reference",
  "cni-args",
  "portMappings",
  "bandwidth",
  "infiniband-guid",
  "default-route",
  "deviceID",
] as const satisfies readonly (keyof NetworkSelection)[];

/** What asks for nothing is as good as absent. */
function askedBy(value: unknown): unknown {
  const isEmpty = value === null || value === "" || isEqual(value, []) || isEqual(value, {});
  return isEmpty ? undefined : value;
}

/** A MAC that is no longer asked for is as good as any. */
function isOtherMac(before: NetworkSelection, now: NetworkSelection): boolean {
  const asked = normalizeMac(now.mac ?? "");
  return asked !== "" && asked !== normalizeMac(before.mac ?? "");
}

/** Names of the attributes, in the order of the standard. */
export function changedAttributes(
  before: NetworkSelection,
  now: NetworkSelection,
): readonly string[] {
  const others = FIELDS.filter((field) => !isEqual(askedBy(before[field]), askedBy(now[field])));
  return [...(isOtherMac(before, now) ? ["mac"] : []), ...others];
}
