// SPDX-License-Identifier: Apache-2.0
// Files on a World's node, except the journal.
import { createDefinitionFiles, createDeviceInfoFiles, createResultCache } from "@patchbay/cni";
import type { Files } from "@patchbay/core/interfaces";
import { createSilentLogger } from "@patchbay/telemetry";
import type { Deps } from "../deps.ts";

export const DEFINITIONS_DIR = "/definitions";
export const DEVICE_INFO_DIR = "/devinfo";

export function nodeFiles(
  files: Files,
): Pick<Deps, "definitionFiles" | "deviceInfo" | "resultCache" | "multusCache"> {
  const log = createSilentLogger();
  return {
    definitionFiles: createDefinitionFiles({ files, log }, DEFINITIONS_DIR),
    deviceInfo: createDeviceInfoFiles({ files, log }, DEVICE_INFO_DIR),
    resultCache: createResultCache(files, ["/cache"]),
    multusCache: createResultCache(files, ["/multus"]),
  };
}
