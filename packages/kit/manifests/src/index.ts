// SPDX-License-Identifier: Apache-2.0
// The public door of manifests.
export { conditionsOf } from "./conditions.ts";
export { forServerVersion } from "./install/app-armor.ts";
export { install, type ObjectResult } from "./install/install.ts";
export { findSettings } from "./install/kept-settings.ts";
export { createKubeVirt, isEstablished } from "./install/kubevirt-object.ts";
export { withSettings } from "./install/settings.ts";
export { uninstall, type Removal } from "./install/uninstall.ts";
export { keepManifests, keepObject } from "./keep.ts";
export { DEFINITIONS } from "./types.ts";
export { parseManifests, readManifests, type Manifest, type ManifestFolder } from "./read.ts";
export { isRole, type Role } from "./role.ts";
