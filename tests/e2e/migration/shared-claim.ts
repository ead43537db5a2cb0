// SPDX-License-Identifier: Apache-2.0
// A claim on a directory that both nodes of the bench share, as an administrator provides it: a volume without node
// affinity. Its mode is Block, because libvirt migrates files only on file systems that it knows to be shared.
import { readdirSync, readlinkSync, statSync } from "node:fs";
import { names } from "@patchbay/api";
import type { Machine } from "@patchbay/support";
import { newestQemu } from "./two-nodes.ts";

const SIZE = "48Mi";
/** Form of the machine's volume handles; the claim reference decides the owner. */
const VOLUME = "pvc-5a7ed000-0000-4000-8000-000000000001";

/** Claim and volume that reference each other. */
function manifestsOf(name: string): readonly unknown[] {
  const shape = { accessModes: ["ReadWriteMany"], storageClassName: "shared", volumeMode: "Block" };
  return [
    {
      apiVersion: "v1",
      kind: "PersistentVolumeClaim",
      metadata: { name, namespace: "default" },
      spec: { ...shape, volumeName: VOLUME, resources: { requests: { storage: SIZE } } },
    },
    {
      apiVersion: "v1",
      kind: "PersistentVolume",
      metadata: { name: VOLUME },
      spec: {
        ...shape,
        capacity: { storage: SIZE },
        persistentVolumeReclaimPolicy: "Delete",
        claimRef: { kind: "PersistentVolumeClaim", namespace: "default", name },
        csi: { driver: "patchbay.io/local", volumeHandle: VOLUME },
      },
    },
  ];
}

export function applySharedClaim(machine: Machine, name: string): void {
  machine.apply(...manifestsOf(name));
}

/** Deletes claim and volume once they are unused; missing ones are a success. */
export function deleteSharedClaim(machine: Machine, name: string): void {
  machine.deleteIfPresent("pvc", name);
  machine.deleteIfPresent("pv", VOLUME);
}

/** Claim devices that the guest's QEMU has open, by their numbers. */
export function claimDevicesOf(vmi: string): readonly number[] {
  const directory = `/proc/${String(newestQemu(vmi))}/fd`;
  const open = readdirSync(directory).map((number) => `${directory}/${number}`);
  const found = open
    .filter((path) => readlinkSync(path).startsWith(`${names.BLOCK_VOLUMES_DIR}/`))
    .map((path) => statSync(path).rdev);
  return [...new Set(found)];
}
