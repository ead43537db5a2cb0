// SPDX-License-Identifier: Apache-2.0
// The door of volumes: what the loop over pods calls.
export { keepVolumesCurrent, type CurrentPods } from "./current.ts";
export type { ImageViews, VolumeDeps } from "./deps.ts";
export { createPodObjects, type OpenCache, type PodObjects } from "./objects/pod-objects.ts";
export { createPodTokens, type PodTokens } from "./objects/pod-tokens.ts";
export { tokenRequester } from "./objects/request-token.ts";
export { prepareVolumes } from "./prepare.ts";
export { removeVolumes } from "./remove.ts";
export { keepStorageLimits, type StorageDeps } from "./storage/keep-storage.ts";
