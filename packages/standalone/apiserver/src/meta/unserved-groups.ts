// SPDX-License-Identifier: Apache-2.0
// API groups that KubeVirt's clients use, but that this server does not serve. A request for such a group gets a 404 that
// names the missing feature. Source: KubeVirt virtctl vmexport and image-upload; CDI.

const CDI =
  "the Containerized Data Importer, which uploads disks; wrap one as an image (patchbay image add), or fill a claim by a DataVolume with source registry, http or pvc";

const FEATURES: Readonly<Record<string, string>> = {
  "cdi.kubevirt.io": CDI,
  "upload.cdi.kubevirt.io": CDI,
  "clone.kubevirt.io": "clones of VMs",
  "snapshot.kubevirt.io": "snapshots of VMs",
};

/**
 * Returns a message if the server must respond with 400 instead of 404; otherwise undefined. After a 404 for CDI's configuration, virtctl
 * memory-dump --create-claim would create a useless claim. Source: KubeVirt virtctl memorydump calcPVCNeededSize.
 */
export function explainMissingResource(group: string, resource: string): string | undefined {
  return group === "cdi.kubevirt.io" && resource === "cdiconfigs"
    ? "Patchbay has neither memory dumps nor the Containerized Data Importer; nothing was changed"
    : undefined;
}

export function findMissingFeature(group: string): string | undefined {
  return Object.hasOwn(FEATURES, group) ? FEATURES[group] : undefined;
}
