// SPDX-License-Identifier: Apache-2.0
import { buildCloudInitDisk, isoImage, type HookedCloudInit } from "@patchbay/core/hooks";
import type { LauncherDisks, LauncherPod } from "@patchbay/core/interfaces";

/** Rebuilds the launcher's cloud-init disks from the data that the hooks returned. @throws AppError with OS_PATH_REFUSED, OS_FILE_FAILED */
export function makeCloudInitDisks(
  cloudInit: readonly HookedCloudInit[],
  {
    pod,
    deps,
  }: { readonly pod: LauncherPod; readonly deps: { readonly launcherDisks: LauncherDisks } },
): void {
  for (const data of cloudInit) {
    const { file, label, texts } = buildCloudInitDisk(data);
    const files = [...texts].map(([path, text]) => [path, Buffer.from(text)] as const);
    deps.launcherDisks.replace(pod.uid, file, isoImage(label, new Map(files)));
  }
}
