// SPDX-License-Identifier: Apache-2.0
export { buildConditions, withConditions } from "./conditions.ts";
export { forServerVersion } from "./install/app-armor.ts";
export {
  describeObject,
  findCompeting,
  isPatchbayObject,
  listNamesakes,
  servesVms,
} from "./install/foreign-objects.ts";
export { install, type ObjectResult } from "./install/install.ts";
export { findSettings, parseSettings } from "./install/preserved-settings.ts";
export { createKubeVirt, isEstablished } from "./install/kubevirt-object.ts";
export { isWorkload, withSettings, type InstallSettings } from "./install/settings.ts";
export { prepareUninstall, uninstall, type Removal } from "./install/uninstall.ts";
export {
  applyManifests,
  applyObject,
  type Manifest,
  type ManifestFolder,
  parseManifests,
  readManifests,
} from "./manifests.ts";
export { DEFINITIONS, findType, isRole, type Role } from "./types.ts";
