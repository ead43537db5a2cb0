// SPDX-License-Identifier: Apache-2.0
// Files of a World's node, except for the journal.
import { createDefinitionFiles, createDeviceInfoFiles, createResultCache } from "@patchbay/cni";
import type { Files } from "@patchbay/core/interfaces";
import { createSilentLogger } from "@patchbay/telemetry";
import type { Deps } from "../deps.ts";

export const DEFINITIONS = "/definitions";
export const DEVICE_INFO = "/devinfo";

export function nodeFiles(
  files: Files,
): Pick<Deps, "definitionFiles" | "deviceInfo" | "resultCache" | "multusCache"> {
  const log = createSilentLogger();
  return {
    definitionFiles: createDefinitionFiles({ files, log }, DEFINITIONS),
    deviceInfo: createDeviceInfoFiles({ files, log }, DEVICE_INFO),
    resultCache: createResultCache(files, ["/cache"]),
    multusCache: createResultCache(files, ["/multus"]),
  };
}
