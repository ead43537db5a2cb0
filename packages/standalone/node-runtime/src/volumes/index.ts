// SPDX-License-Identifier: Apache-2.0
export { refreshVolumes } from "./refresh.ts";
export { PREPARATION_LIMITS, type ImageMounts, type VolumeDeps } from "./deps.ts";
export { createHostDiskDirectoriesReader } from "./host-paths.ts";
export { createPodObjects } from "./objects/pod-objects.ts";
export { createPodTokens } from "./objects/pod-tokens.ts";
export { createTokenRequester } from "./objects/pod-tokens.ts";
export { prepareVolumes } from "./pod-volumes.ts";
export { removeVolumes } from "./pod-volumes.ts";
export { enforceStorageLimits } from "./storage/enforce-limits.ts";
