// SPDX-License-Identifier: Apache-2.0
// The public door of manifests.
export { keepManifests, keepObject } from "./keep.ts";
export { parseManifests, readManifests, type Manifest } from "./read.ts";
export { isRole, type Role } from "./role.ts";
