// SPDX-License-Identifier: Apache-2.0
// Groups that KubeVirt's clients ask for and that nothing here serves: which feature stands behind each, so that who asks is
// told more than that there is no such path. Source: KubeVirt virtctl vmexport and image-upload; CDI.

const CDI =
  "the Containerized Data Importer, which uploads disks; wrap one as an image (patchbay image add), or fill a claim by a DataVolume with source registry, http or pvc";

const FEATURES: Readonly<Record<string, string>> = {
  "cdi.kubevirt.io": CDI,
  "upload.cdi.kubevirt.io": CDI,
  "clone.kubevirt.io": "clones of VMs",
  "snapshot.kubevirt.io": "snapshots of VMs",
};

/**
 * Why a path of a group that nothing serves is refused with more than a 404. virtctl memory-dump --create-claim reads CDI's
 * settings before it makes its claim, and goes on at a 404: any other answer ends it while it has made nothing. Source:
 * KubeVirt virtctl memorydump calcPVCNeededSize.
 */
export function absentResource(group: string, resource: string): string | undefined {
  return group === "cdi.kubevirt.io" && resource === "cdiconfigs"
    ? "Patchbay has neither memory dumps nor the Containerized Data Importer; nothing was changed"
    : undefined;
}

/** What is missing with the group, in words; undefined: nothing that is known. A definition of the group is served first. */
export function absentFeature(group: string): string | undefined {
  return Object.hasOwn(FEATURES, group) ? FEATURES[group] : undefined;
}
