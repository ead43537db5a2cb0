// SPDX-License-Identifier: Apache-2.0
// Plans the provisioning and binding of one claim. The event messages are those of Kubernetes.
import { apiVersionOf, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES } from "@patchbay/api";
import type {
  PersistentVolume,
  ClaimReference,
  PersistentVolumeClaim,
  VolumeMode,
  StorageClass,
} from "@patchbay/api/kubernetes";
import { parseQuantity } from "@patchbay/api/values";
import {
  PROVISIONER,
  buildVolumeName,
  HOSTNAME_LABEL,
  PROVISIONED_BY_ANNOTATION,
  VOLUME_FINALIZER,
  SELECTED_NODE_ANNOTATION,
} from "../names.ts";
import type { ClaimSize } from "@patchbay/core/interfaces";
import { computeFileBytes } from "@patchbay/os";
import { printBytes } from "../../volumes/storage/limits.ts";

/** Share of the disk that is reserved for images, pod files and the store, up to RESERVE_BYTES. */
const RESERVE_SHARE = 0.15;
const RESERVE_BYTES = 20 * 2 ** 30;

/** Returns how many bytes the files of all claims together may have. The sparse files must fit on the disk even at full size. */
export function computeClaimCapacityBytes(diskBytes: number): number {
  return Math.floor(diskBytes - Math.min(diskBytes * RESERVE_SHARE, RESERVE_BYTES));
}

export function sumPromisedBytes(volumes: readonly PersistentVolume[]): number {
  return volumes
    .filter(({ spec }) => spec.csi?.driver === PROVISIONER)
    .map(parseSize)
    .filter(({ sizeBytes }) => sizeBytes > 0)
    .map(computeFileBytes)
    .reduce((sum, bytes) => sum + bytes, 0);
}

interface ClaimCapacity {
  readonly diskBytes: number;
  readonly promisedBytes: number;
}

export function computeFreeClaimBytes({ diskBytes, promisedBytes }: ClaimCapacity): number {
  return Math.max(computeClaimCapacityBytes(diskBytes) - promisedBytes, 0);
}

export function buildClaimReference({ metadata }: PersistentVolumeClaim): ClaimReference {
  const { name, namespace, uid } = metadata;
  return {
    apiVersion: apiVersionOf(PERSISTENT_VOLUME_CLAIMS),
    kind: PERSISTENT_VOLUME_CLAIMS.kind,
    name,
    ...(namespace === undefined ? {} : { namespace }),
    ...(uid === undefined ? {} : { uid }),
  };
}

function buildNodeAffinity(nodeName: string): object {
  const expression = { key: HOSTNAME_LABEL, operator: "In", values: [nodeName] };
  return { required: { nodeSelectorTerms: [{ matchExpressions: [expression] }] } };
}

export function buildVolume(
  claim: PersistentVolumeClaim,
  placement: { readonly nodeName: string; readonly policy: "Delete" | "Retain" },
): PersistentVolume {
  const { accessModes = [], resources, storageClassName = "", volumeMode } = claim.spec;
  const handle = buildVolumeName(claim.metadata.uid ?? "");
  return {
    apiVersion: apiVersionOf(PERSISTENT_VOLUMES),
    kind: PERSISTENT_VOLUMES.kind,
    metadata: {
      name: handle,
      annotations: { [PROVISIONED_BY_ANNOTATION]: PROVISIONER },
      finalizers: [VOLUME_FINALIZER],
    },
    spec: {
      accessModes,
      capacity: { storage: resources?.requests?.["storage"] ?? "" },
      storageClassName,
      volumeMode: volumeMode ?? "Filesystem",
      claimRef: buildClaimReference(claim),
      persistentVolumeReclaimPolicy: placement.policy,
      csi: { driver: PROVISIONER, volumeHandle: handle },
      nodeAffinity: buildNodeAffinity(placement.nodeName),
    },
  };
}

function parseBytes(quantity: string | undefined): number {
  return Math.ceil(parseQuantity(quantity ?? "") ?? 0);
}

function toKind(mode: VolumeMode | undefined): ClaimSize["kind"] {
  return mode === "Block" ? "device" : "files";
}

function parseSize({ spec }: PersistentVolume): ClaimSize {
  return { kind: toKind(spec.volumeMode), sizeBytes: parseBytes(spec.capacity?.["storage"]) };
}

interface Traits {
  readonly accessModes: readonly string[];
  readonly className: string;
  readonly mode: VolumeMode;
}

function parseTraits(spec: {
  readonly accessModes?: readonly string[];
  readonly storageClassName?: string;
  readonly volumeMode?: VolumeMode;
}): Traits {
  const { accessModes = [], storageClassName = "", volumeMode = "Filesystem" } = spec;
  return { accessModes, className: storageClassName, mode: volumeMode };
}

/** Returns why the volume does not satisfy the claim; undefined if it does. Source: Kubernetes checkVolumeSatisfyClaim. */
function findMismatch(claim: PersistentVolumeClaim, volume: PersistentVolume): string | undefined {
  const requestedSize = claim.spec.resources?.requests?.["storage"];
  const [requestedTraits, offeredTraits] = [parseTraits(claim.spec), parseTraits(volume.spec)];
  if (parseBytes(volume.spec.capacity?.["storage"]) < parseBytes(requestedSize)) {
    return "requested PV is too small";
  }
  if (offeredTraits.className !== requestedTraits.className)
    return "storageClassName does not match";
  if (offeredTraits.mode !== requestedTraits.mode) return "incompatible volumeMode";
  const hasAccessModes = requestedTraits.accessModes.every((mode) =>
    offeredTraits.accessModes.includes(mode),
  );
  return hasAccessModes ? undefined : "incompatible accessMode";
}

export interface ClaimFacts {
  readonly claim: PersistentVolumeClaim;
  readonly storageClass: StorageClass | undefined;
  /** Volume that the claim references, or that was provisioned for the claim; undefined until it exists. */
  readonly volume: PersistentVolume | undefined;
  readonly nodeName: string;
  readonly claimCapacity: ClaimCapacity;
}

export type ClaimAction =
  | {
      readonly kind: "note";
      readonly type: "Normal" | "Warning";
      readonly reason: string;
      readonly message: string;
    }
  | { readonly kind: "createVolume"; readonly volume: PersistentVolume }
  | { readonly kind: "createStorage"; readonly handle: string; readonly size: ClaimSize }
  | { readonly kind: "setClaimRef"; readonly volume: PersistentVolume }
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

function planWarning(reason: string, message: string): readonly ClaimAction[] {
  return [{ kind: "note", type: "Warning", reason, message }];
}

/** Source: ErrReasonNotEnoughSpace of the Kubernetes scheduler. */
const NO_SPACE = "node(s) did not have enough free storage";

function describeShortage(
  { claim, claimCapacity }: ClaimFacts,
  size: ClaimSize,
): string | undefined {
  const bytes = computeFileBytes(size);
  if (bytes <= computeFreeClaimBytes(claimCapacity)) return undefined;
  const requested = claim.spec.resources?.requests?.["storage"] ?? "";
  const tables = ` (${printBytes(bytes)} with the tables of its file system)`;
  const requestText = `${requested} are requested${size.kind === "files" ? tables : ""}`;
  const [capacity, diskSize] = [
    computeClaimCapacityBytes(claimCapacity.diskBytes),
    claimCapacity.diskBytes,
  ].map(printBytes);
  const limitText = `claims may use ${capacity ?? ""} of the disk's ${diskSize ?? ""}`;
  if (bytes > computeClaimCapacityBytes(claimCapacity.diskBytes)) {
    return `${NO_SPACE}: ${requestText}, and ${limitText}: create a smaller claim`;
  }
  const promisedText = `${printBytes(claimCapacity.promisedBytes)} of that are promised to other claims`;
  return `${NO_SPACE}: ${requestText}, ${limitText}, and ${promisedText}: delete unused claims, after which this claim is bound automatically, or create a smaller one`;
}

function findUnsupportedField({ spec }: PersistentVolumeClaim): string | undefined {
  if (spec.selector !== undefined) {
    return "spec.selector is not supported: it selects existing volumes, but each claim gets a new one";
  }
  if (spec.dataSource !== undefined || spec.dataSourceRef !== undefined) {
    return "spec.dataSource is not supported: the volume would be empty";
  }
  return undefined;
}

function findProblem(facts: ClaimFacts): string | undefined {
  const { resources, storageClassName = "", volumeMode } = facts.claim.spec;
  const unsupported = findUnsupportedField(facts.claim);
  if (unsupported !== undefined) return unsupported;
  const requested = resources?.requests?.["storage"] ?? "";
  const bytes = parseQuantity(requested);
  if (bytes === undefined || bytes < 1) return `storage ${requested} is not a size`;
  const shortage = describeShortage(facts, {
    kind: toKind(volumeMode),
    sizeBytes: Math.ceil(bytes),
  });
  if (shortage === undefined) return undefined;
  return `failed to provision volume with StorageClass "${storageClassName}": ${shortage}`;
}

function findBlockers(facts: ClaimFacts, storageClass: StorageClass): readonly ClaimAction[] {
  const { claim, nodeName } = facts;
  const selectedNode = claim.metadata.annotations?.[SELECTED_NODE_ANNOTATION];
  const isWaitForFirstConsumer = storageClass.volumeBindingMode === "WaitForFirstConsumer";
  if (isWaitForFirstConsumer && selectedNode === undefined) {
    const message = "waiting for first consumer to be created before binding";
    return [{ kind: "note", type: "Normal", reason: "WaitForFirstConsumer", message }];
  }
  if (isWaitForFirstConsumer && selectedNode !== nodeName) {
    return planWarning(
      "ProvisioningFailed",
      `it is for node ${selectedNode ?? ""}, and this is node ${nodeName}`,
    );
  }
  const problem = findProblem(facts);
  return problem === undefined ? [] : planWarning("ProvisioningFailed", problem);
}

function planProvisioning(facts: ClaimFacts): readonly ClaimAction[] {
  const { claim, storageClass, nodeName } = facts;
  const { storageClassName = "" } = claim.spec;
  if (storageClassName === "") {
    const message = "no persistent volumes available for this claim and no storage class is set";
    return planWarning("FailedBinding", message);
  }
  if (storageClass === undefined) {
    const message = `storageclass.storage.k8s.io "${storageClassName}" not found`;
    return planWarning("ProvisioningFailed", message);
  }
  if (storageClass.provisioner !== PROVISIONER) {
    const message = `no controller on this machine creates volumes for provisioner ${storageClass.provisioner}: use another storage class`;
    return planWarning("ExternalProvisioning", message);
  }
  const blockers = findBlockers(facts, storageClass);
  if (blockers.length > 0) return blockers;
  const policy = storageClass.reclaimPolicy ?? "Delete";
  return [{ kind: "createVolume", volume: buildVolume(claim, { nodeName, policy }) }];
}

function isManagedVolume(volume: PersistentVolume): boolean {
  return volume.spec.csi?.driver === PROVISIONER;
}

function classifyOwner({ claim, volume }: ClaimFacts): "mine" | "free" | "other" {
  const { uid, namespace, name } = volume?.spec.claimRef ?? {};
  if (uid !== undefined) return uid === claim.metadata.uid ? "mine" : "other";
  const isPromised = namespace === claim.metadata.namespace && name === claim.metadata.name;
  return name === undefined || isPromised ? "free" : "other";
}

function buildBoundStatus(volume: PersistentVolume): NonNullable<PersistentVolumeClaim["status"]> {
  const { accessModes = [], capacity = {} } = volume.spec;
  return { phase: "Bound", accessModes, capacity };
}

function planBinding(claim: PersistentVolumeClaim, volume: PersistentVolume): ClaimAction[] {
  const { name } = volume.metadata;
  const phase = volume.status?.phase ?? "Pending";
  const hasStorage = phase !== "Pending";
  const handle = volume.spec.csi?.volumeHandle ?? "";
  return [
    ...(hasStorage ? [] : [{ kind: "createStorage", handle, size: parseSize(volume) } as const]),
    ...(phase === "Bound" ? [] : [{ kind: "reportVolume", name, phase: "Bound" } as const]),
    ...(claim.spec.volumeName === name ? [] : [{ kind: "bindClaim", volumeName: name } as const]),
    ...(claim.status?.phase === "Bound"
      ? []
      : [{ kind: "reportClaim", status: buildBoundStatus(volume) } as const]),
  ];
}

function planVolume(facts: ClaimFacts, volume: PersistentVolume): readonly ClaimAction[] {
  const { claim } = facts;
  if (!isManagedVolume(volume)) return [];
  const { name } = volume.metadata;
  const owner = classifyOwner(facts);
  if (owner === "other") {
    return planWarning("FailedBinding", `volume "${name}" already bound to a different claim.`);
  }
  if (owner === "mine") return planBinding(claim, volume);
  const mismatch = findMismatch(claim, volume);
  if (mismatch !== undefined) {
    return planWarning("VolumeMismatch", `Cannot bind to requested volume "${name}": ${mismatch}`);
  }
  return [{ kind: "setClaimRef", volume }];
}

function planLostVolume({ claim }: ClaimFacts, volumeName: string): readonly ClaimAction[] {
  if (claim.status?.phase === "Lost") return [];
  if (claim.status?.phase !== "Bound") {
    return planWarning("FailedBinding", `volume "${volumeName}" not found`);
  }
  const message = "Bound claim has lost its PersistentVolume. Data on the volume is lost!";
  return [{ kind: "reportClaim", status: { phase: "Lost" } }, ...planWarning("ClaimLost", message)];
}

export function findVolumeName({ metadata, spec }: PersistentVolumeClaim): string {
  return (spec.volumeName ?? "") === ""
    ? buildVolumeName(metadata.uid ?? "")
    : (spec.volumeName ?? "");
}

export function planClaim(facts: ClaimFacts): readonly ClaimAction[] {
  const { claim, volume } = facts;
  if (claim.metadata.deletionTimestamp !== undefined) return [];
  if (volume !== undefined) return planVolume(facts, volume);
  const { volumeName = "" } = claim.spec;
  return volumeName === "" ? planProvisioning(facts) : planLostVolume(facts, volumeName);
}
