// SPDX-License-Identifier: Apache-2.0
// Where is a pod's volume on this node? A kubelet's layout, which virt-handler reads too. Pure.
import { join } from "node:path";
import type { PodVolume } from "@patchbay/api";

/** Folders of the kinds of volumes below a pod's directory. Source: Kubernetes kubelet, "pod volumes directory". */
const FOLDERS = {
  emptyDir: "kubernetes.io~empty-dir",
  configMap: "kubernetes.io~configmap",
  secret: "kubernetes.io~secret",
  downwardAPI: "kubernetes.io~downward-api",
  projected: "kubernetes.io~projected",
  image: "kubernetes.io~image",
} as const;

/** A kind that has a directory of its own. */
export type OwnKind = keyof typeof FOLDERS;

const OWN_KINDS = Object.keys(FOLDERS) as readonly OwnKind[]; // the keys are the kinds

/** The directory of all that a pod has. */
export function podDirectory(podsDir: string, uid: string): string {
  return join(podsDir, uid);
}

/** The directory of all its volumes of that kind. */
export function kindDirectory(podsDir: string, uid: string, kind: OwnKind): string {
  return join(podDirectory(podsDir, uid), "volumes", FOLDERS[kind]);
}

/** The directory of a volume. */
export function volumePath(at: {
  readonly podsDir: string;
  readonly uid: string;
  readonly kind: OwnKind;
  readonly name: string;
}): string {
  return join(kindDirectory(at.podsDir, at.uid, at.kind), at.name);
}

/** The file that an emptyDir's file system lies in; the pod does not see it. */
export function imageFile(podsDir: string, uid: string, name: string): string {
  return join(podDirectory(podsDir, uid), "disks", `${name}.ext4`);
}

/** Where a directory of the node is shown that the pod may have; the product's pods have such paths themselves. */
export function hostDiskPath(podsDir: string, uid: string, name: string): string {
  return join(podDirectory(podsDir, uid), "volumes", "kubernetes.io~host-path", name);
}

/** Of which kind a volume is; undefined: a host's path, or of none that is made here. */
export function ownKindOf(volume: PodVolume): OwnKind | undefined {
  return OWN_KINDS.find((kind) => volume[kind] !== undefined);
}
