// SPDX-License-Identifier: Apache-2.0
// Makes cloud-init's disks of what hooks have answered, in the place of those that were made before any hook ran.
import { cloudInitDiskOf, isoImage, type HookedCloudInit } from "@patchbay/core";
import type { LauncherDisks, LauncherPod } from "@patchbay/core/ports";

/**
 * Makes the disk of each; may be repeated.
 * @throws AppError with OS_PATH_REFUSED, OS_FILE_FAILED
 */
export function makeCloudInitDisks(
  cloudInit: readonly HookedCloudInit[],
  {
    pod,
    deps,
  }: { readonly pod: LauncherPod; readonly deps: { readonly launcherDisks: LauncherDisks } },
): void {
  for (const data of cloudInit) {
    const { file, label, texts } = cloudInitDiskOf(data);
    const files = [...texts].map(([path, text]) => [path, Buffer.from(text)] as const);
    deps.launcherDisks.replace(pod.uid, file, isoImage(label, new Map(files)));
  }
}
