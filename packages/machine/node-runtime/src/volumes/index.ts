// SPDX-License-Identifier: Apache-2.0
// The door of volumes: what the loop over pods calls.
export { keepVolumesCurrent } from "./current.ts";
export type { ImageViews, VolumeDeps } from "./deps.ts";
export { hostDisksOf } from "./host-disk.ts";
export { createPodObjects, type OpenCache } from "./objects/pod-objects.ts";
export { createPodTokens } from "./objects/pod-tokens.ts";
export { tokenRequester } from "./objects/request-token.ts";
export { prepareVolumes } from "./prepare.ts";
export { removeVolumes } from "./remove.ts";
export { keepStorageLimits } from "./storage/keep-storage.ts";
