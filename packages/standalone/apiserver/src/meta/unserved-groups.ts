// SPDX-License-Identifier: Apache-2.0
// API groups of KubeVirt's clients that this server lacks. The 404 names the missing feature. Source: KubeVirt virtctl vmexport and
// image-upload; CDI.

const CDI =
  "the Containerized Data Importer, which uploads disks; wrap one as an image (patchbay image add), or fill a claim by a DataVolume with source registry, http or pvc";

const FEATURES: Readonly<Record<string, string>> = {
  "cdi.kubevirt.io": CDI,
  "upload.cdi.kubevirt.io": CDI,
  "clone.kubevirt.io": "clones of VMs",
  "snapshot.kubevirt.io": "snapshots of VMs",
};

/**
 * Returns a message for status 400, because virtctl memory-dump creates a useless claim after a 404. Source: KubeVirt virtctl memorydump
 * calcPVCNeededSize.
 */
export function explainMissingResource(group: string, resource: string): string | undefined {
  return group === "cdi.kubevirt.io" && resource === "cdiconfigs"
    ? "Patchbay has neither memory dumps nor the Containerized Data Importer; nothing was changed"
    : undefined;
}

export function findMissingFeature(group: string): string | undefined {
  return Object.hasOwn(FEATURES, group) ? FEATURES[group] : undefined;
}
