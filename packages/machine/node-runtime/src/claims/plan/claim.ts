// SPDX-License-Identifier: Apache-2.0
// What is to be done for one claim? Pure: it gets its volume when a pod needs it, and a reason while it does not.
import {
  parseQuantity,
  type PersistentVolume,
  type PersistentVolumeClaim,
  type StorageClass,
} from "@patchbay/api";
import type { ClaimSize } from "@patchbay/core/ports";
import { handleOf } from "../layout.ts";
import { printBytes } from "../../volumes/storage/limits.ts";
import { PROVISIONER, SELECTED_NODE } from "../words.ts";
import { claimRoomOf, leftBytesOf, type ClaimRoom } from "./room.ts";
import { mismatchOf, newVolumeOf, sizeOf } from "./volume-of.ts";

/** What is known of one claim. */
export interface ClaimFacts {
  readonly claim: PersistentVolumeClaim;
  /** The class that it names; undefined: there is none of that name. */
  readonly storageClass: StorageClass | undefined;
  /** The volume that it names, or the one that was made for it. */
  readonly volume: PersistentVolume | undefined;
  readonly nodeName: string;
  readonly room: ClaimRoom;
}

/** One step; repeated, it does no harm. */
export type ClaimAction =
  /** Says why it waits. */
  | {
      readonly kind: "note";
      readonly type: "Normal" | "Warning";
      readonly reason: string;
      readonly message: string;
    }
  | { readonly kind: "createVolume"; readonly volume: PersistentVolume }
  | { readonly kind: "makeStorage"; readonly handle: string; readonly size: ClaimSize }
  | { readonly kind: "takeVolume"; readonly volume: PersistentVolume }
  | { readonly kind: "bindClaim"; readonly volumeName: string }
  | {
      readonly kind: "reportClaim";
      readonly status: NonNullable<PersistentVolumeClaim["status"]>;
    }
  | {
      readonly kind: "reportVolume";
      readonly name: string;
      readonly phase: "Available" | "Bound" | "Released";
    };

function warn(reason: string, message: string): readonly ClaimAction[] {
  return [{ kind: "note", type: "Warning", reason, message }];
}

/** Source: Kubernetes scheduler, ErrReasonNotEnoughSpace. */
const NO_SPACE = "node(s) did not have enough free storage";

/** Why there is no room for so many bytes, and what makes some; undefined: there is. */
function lackOf({ claim, room }: ClaimFacts, bytes: number): string | undefined {
  if (bytes <= leftBytesOf(room)) return undefined;
  const asked = claim.spec.resources?.requests?.["storage"] ?? "";
  const [all, disk] = [claimRoomOf(room.diskBytes), room.diskBytes].map(printBytes);
  const had = `claims may use ${all ?? ""} of the disk's ${disk ?? ""}`;
  if (bytes > claimRoomOf(room.diskBytes)) {
    return `${NO_SPACE}: ${asked} are requested, and ${had}: create a smaller claim`;
  }
  const given = `${printBytes(room.promisedBytes)} of them are promised to other claims`;
  return `${NO_SPACE}: ${asked} are requested, ${had}, and ${given}: delete claims that nobody needs, after which this one is bound by itself, or create a smaller one`;
}

/** What of the claim nobody here can make. */
function unsupportedIn({ spec }: PersistentVolumeClaim): string | undefined {
  if (spec.selector !== undefined) {
    return "spec.selector is not supported: it chooses among existing volumes, and here each claim gets a new one";
  }
  if (spec.dataSource !== undefined || spec.dataSourceRef !== undefined) {
    return "spec.dataSource is not supported: the volume would be empty";
  }
  return undefined;
}

/** Reasons against making a volume now. */
function refusalOf(facts: ClaimFacts): string | undefined {
  const { resources, storageClassName = "" } = facts.claim.spec;
  const unsupported = unsupportedIn(facts.claim);
  if (unsupported !== undefined) return unsupported;
  const asked = resources?.requests?.["storage"] ?? "";
  const bytes = parseQuantity(asked);
  if (bytes === undefined || bytes < 1) return `storage ${asked} is not a size`;
  const lack = lackOf(facts, bytes);
  if (lack === undefined) return undefined;
  return `failed to provision volume with StorageClass "${storageClassName}": ${lack}`; // Kubernetes' words
}

function whyNotNow(facts: ClaimFacts, storageClass: StorageClass): readonly ClaimAction[] {
  const { claim, nodeName } = facts;
  const selected = claim.metadata.annotations?.[SELECTED_NODE];
  const waits = storageClass.volumeBindingMode === "WaitForFirstConsumer";
  if (waits && selected === undefined) {
    const message = "waiting for first consumer to be created before binding"; // Kubernetes' words
    return [{ kind: "note", type: "Normal", reason: "WaitForFirstConsumer", message }];
  }
  if (waits && selected !== nodeName) {
    return warn(
      "ProvisioningFailed",
      `it is for node ${selected ?? ""}, and this is node ${nodeName}`,
    );
  }
  const refusal = refusalOf(facts);
  return refusal === undefined ? [] : warn("ProvisioningFailed", refusal);
}

/** A claim without a volume: one is made, or it is said why not. */
function planMaking(facts: ClaimFacts): readonly ClaimAction[] {
  const { claim, storageClass, nodeName } = facts;
  const { storageClassName = "" } = claim.spec;
  if (storageClassName === "") {
    const message = "no persistent volumes available for this claim and no storage class is set";
    return warn("FailedBinding", message); // Kubernetes' words
  }
  if (storageClass === undefined) {
    const message = `storageclass.storage.k8s.io "${storageClassName}" not found`;
    return warn("ProvisioningFailed", message);
  }
  if (storageClass.provisioner !== PROVISIONER) {
    const message = `nothing on this machine creates volumes for provisioner ${storageClass.provisioner}: name another storage class`;
    return warn("ExternalProvisioning", message);
  }
  const why = whyNotNow(facts, storageClass);
  if (why.length > 0) return why;
  const policy = storageClass.reclaimPolicy ?? "Delete";
  return [{ kind: "createVolume", volume: newVolumeOf(claim, { nodeName, policy }) }];
}

function isOurs(volume: PersistentVolume): boolean {
  return volume.spec.csi?.driver === PROVISIONER;
}

function whoseOf({ claim, volume }: ClaimFacts): "mine" | "free" | "other" {
  const { uid, namespace, name } = volume?.spec.claimRef ?? {};
  if (uid !== undefined) return uid === claim.metadata.uid ? "mine" : "other";
  const isPromised = namespace === claim.metadata.namespace && name === claim.metadata.name;
  return name === undefined || isPromised ? "free" : "other";
}

function boundStatus(volume: PersistentVolume): NonNullable<PersistentVolumeClaim["status"]> {
  const { accessModes = [], capacity = {} } = volume.spec;
  return { phase: "Bound", accessModes, capacity };
}

/** Claim and volume come to name each other; the storage is there before that. */
function planBinding(claim: PersistentVolumeClaim, volume: PersistentVolume): ClaimAction[] {
  const { name } = volume.metadata;
  const phase = volume.status?.phase ?? "Pending";
  const isMade = phase !== "Pending";
  const handle = volume.spec.csi?.volumeHandle ?? "";
  return [
    ...(isMade ? [] : [{ kind: "makeStorage", handle, size: sizeOf(volume) } as const]),
    ...(phase === "Bound" ? [] : [{ kind: "reportVolume", name, phase: "Bound" } as const]),
    ...(claim.spec.volumeName === name ? [] : [{ kind: "bindClaim", volumeName: name } as const]),
    ...(claim.status?.phase === "Bound"
      ? []
      : [{ kind: "reportClaim", status: boundStatus(volume) } as const]),
  ];
}

function planVolume(facts: ClaimFacts, volume: PersistentVolume): readonly ClaimAction[] {
  const { claim } = facts;
  if (!isOurs(volume)) return [];
  const { name } = volume.metadata;
  const whose = whoseOf(facts);
  if (whose === "other") {
    return warn("FailedBinding", `volume "${name}" already bound to a different claim.`);
  }
  if (whose === "mine") return planBinding(claim, volume);
  const mismatch = mismatchOf(claim, volume);
  if (mismatch !== undefined) {
    return warn("VolumeMismatch", `Cannot bind to requested volume "${name}": ${mismatch}`);
  }
  return [{ kind: "takeVolume", volume }];
}

/** A claim whose volume is gone. */
function planLoss({ claim }: ClaimFacts, volumeName: string): readonly ClaimAction[] {
  if (claim.status?.phase === "Lost") return [];
  if (claim.status?.phase !== "Bound") {
    return warn("FailedBinding", `volume "${volumeName}" not found`);
  }
  const message = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"; // Kubernetes' words
  return [{ kind: "reportClaim", status: { phase: "Lost" } }, ...warn("ClaimLost", message)];
}

/** Name of the volume that a claim has or would get. */
export function volumeNameOf({ metadata, spec }: PersistentVolumeClaim): string {
  return (spec.volumeName ?? "") === "" ? handleOf(metadata.uid ?? "") : (spec.volumeName ?? "");
}

/** The steps in their order; none at rest. */
export function planClaim(facts: ClaimFacts): readonly ClaimAction[] {
  const { claim, volume } = facts;
  if (claim.metadata.deletionTimestamp !== undefined) return [];
  if (volume !== undefined) return planVolume(facts, volume);
  const { volumeName = "" } = claim.spec;
  return volumeName === "" ? planMaking(facts) : planLoss(facts, volumeName);
}
