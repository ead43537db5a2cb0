// SPDX-License-Identifier: Apache-2.0
// API for tests that create a second node.
export { parseArguments } from "./config.ts";
export { ensureComponentCertificates } from "./data-dir/certificates.ts";
export {
  buildHealthSocketPath,
  listDirectories,
  buildPaths,
  type Paths,
} from "./data-dir/paths.ts";
export { removeLeftovers } from "./host/leftovers.ts";
export { buildServerUrl } from "./prepare.ts";
export { prepareOwnContainerd } from "./runtime/own-containerd.ts";
export { importOwnImages } from "./runtime/own-images.ts";
export { readSettings, type Settings } from "./settings/settings.ts";
export { Component, type ComponentProgram } from "./supervisor/component.ts";
export { buildPrograms } from "./supervisor/components.ts";
