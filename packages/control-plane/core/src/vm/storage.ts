// SPDX-License-Identifier: Apache-2.0
// Checks whether the storage of a VMI's disks is ready, and builds the DataVolumes of a VM.
import {
  apiVersionOf,
  DATA_VOLUMES,
  names,
  type StorageConfig,
  type VirtualMachineInstance,
  type DataVolume,
  type VirtualMachine,
} from "@patchbay/api";
import type { ObjectMeta, PersistentVolumeClaim } from "@patchbay/api/kubernetes";
import { readVolumeMode, listClaimNames, findHostPath } from "./spec/disk-files.ts";
import {
  FILL_MESSAGE_ANNOTATION,
  FILL_PHASE_ANNOTATION,
  FILL_STATE_ANNOTATION,
  FILLED,
} from "./spec/data-volume.ts";
import { findClaimName, listDisks, type GuestDisk } from "./spec/disks.ts";

export interface StorageFacts {
  readonly claims: ReadonlyMap<string, PersistentVolumeClaim>;
  readonly config: StorageConfig;
}

interface StorageProblem {
  readonly reason: string;
  readonly message: string;
}

const FILL_FAILED_PHASE = "Failed";
const FILL_ERROR_STATE = "Error";

function findField({ volumeIndex, source }: GuestDisk): string {
  return `spec.volumes[${String(volumeIndex)}].${source.kind}`;
}

function findMissingClaim(disk: GuestDisk, name: string): StorageProblem {
  const [objectName, reason] =
    disk.source.kind === "dataVolume"
      ? ["the claim of the DataVolume", "FailedDataVolumeNotFound"]
      : ["the PersistentVolumeClaim", "FailedPvcNotFound"];
  const message = `${findField(disk)}: ${objectName} ${name} does not exist in the VM's namespace; the VM starts when it is created`;
  return { reason, message };
}

/** Returns why a claim is not filled yet. CDI fills claims; on a standalone machine, Patchbay does. */
function findFillProblem(where: string, { annotations = {} }: ObjectMeta) {
  const phase = annotations[FILL_PHASE_ANNOTATION];
  const state = annotations[FILL_STATE_ANNOTATION];
  const reportedMessage = annotations[FILL_MESSAGE_ANNOTATION] ?? "";
  if (phase === undefined || phase === FILLED) return undefined;
  const cause = reportedMessage === "" ? phase : reportedMessage;
  if (phase === FILL_FAILED_PHASE || state === FILL_ERROR_STATE) {
    return { reason: "DataVolumeError", message: `${where} cannot be filled: ${cause}` };
  }
  const message = `${where} is being filled (${cause}); the VM starts afterwards`;
  return { reason: "DataVolumeNotReady", message };
}

/** Returns why a claim cannot be used. Accepts an unbound claim, because some claims are bound only when a pod uses them. */
function findClaimProblem(
  disk: GuestDisk,
  { metadata, spec, status }: PersistentVolumeClaim,
): StorageProblem | undefined {
  const where = `${findField(disk)}: the PersistentVolumeClaim ${metadata.name}`;
  if (metadata.deletionTimestamp !== undefined) {
    return { reason: "ClaimTerminating", message: `${where} is being deleted` };
  }
  if (status?.phase === "Lost") {
    const message = `${where} has lost its volume ${spec.volumeName ?? ""}; restore the volume, or delete the claim and create it again`;
    return { reason: "ClaimLost", message };
  }
  return findFillProblem(where, metadata);
}

export function waitsForBinding(
  vmi: VirtualMachineInstance,
  claims: StorageFacts["claims"],
): boolean {
  return listClaimNames(vmi).some((name) => {
    const claim = claims.get(name);
    return claim !== undefined && claim.status?.phase !== "Bound";
  });
}

/** Reports a lun whose claim has volumeMode Filesystem, because only block devices support SCSI commands. */
function findLunProblem(disk: GuestDisk, claim: PersistentVolumeClaim | undefined) {
  if (disk.device !== "lun" || readVolumeMode(claim) === "Block") return undefined;
  const message = `${findField(disk)}: disk ${disk.name} is a lun, which needs a claim with volumeMode Block`;
  return { reason: "LunNeedsBlockClaim", message };
}

function findHostDiskProblem(disk: GuestDisk, { hostDisks }: StorageConfig) {
  if (disk.source.kind !== "hostDisk") return undefined;
  const reason = "HostDiskNotAllowed";
  if (hostDisks === undefined) {
    const message = `${findField(disk)}: disks of the node are switched off; an administrator adds HostDisk to configuration.developerConfiguration.featureGates of the KubeVirt object`;
    return { reason, message };
  }
  const directory = findHostPath(disk.source.path)?.directory;
  if (directory !== undefined && hostDisks.includes(directory)) return undefined;
  const allowed = hostDisks.length === 0 ? "none" : hostDisks.join(", ");
  const message = `${findField(disk)}.path: ${disk.source.path} is not directly below one of configuration.hostDiskDirectories of the KubeVirt object (${allowed})`;
  return { reason, message };
}

function diskProblem(disk: GuestDisk, storage: StorageFacts): StorageProblem | undefined {
  const name = findClaimName(disk.source);
  const claim = name === undefined ? undefined : storage.claims.get(name);
  if (name !== undefined && claim === undefined) return findMissingClaim(disk, name);
  return (
    (claim === undefined ? undefined : findClaimProblem(disk, claim)) ??
    findLunProblem(disk, claim) ??
    findHostDiskProblem(disk, storage.config)
  );
}

export function findStorageFault(
  { spec }: VirtualMachineInstance,
  storage: StorageFacts,
): StorageProblem | undefined {
  for (const disk of listDisks(spec)) {
    const problem = diskProblem(disk, storage);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

/** Builds the DataVolumes, which Kubernetes deletes with the VM. Source: KubeVirt spec.dataVolumeTemplates. */
export function buildDataVolumes(vm: VirtualMachine): readonly DataVolume[] {
  const { metadata, spec } = vm;
  return (spec.dataVolumeTemplates ?? []).map((template) => ({
    apiVersion: apiVersionOf(DATA_VOLUMES),
    kind: DATA_VOLUMES.kind,
    metadata: {
      name: template.metadata?.name ?? "",
      namespace: metadata.namespace ?? "",
      labels: { ...template.metadata?.labels, [names.CREATED_BY_LABEL]: metadata.uid ?? "" },
      annotations: { ...template.metadata?.annotations },
      ownerReferences: [
        {
          apiVersion: vm.apiVersion,
          kind: vm.kind,
          name: metadata.name,
          uid: metadata.uid ?? "",
          controller: true,
          blockOwnerDeletion: true,
        },
      ],
    },
    spec: template.spec,
  }));
}
