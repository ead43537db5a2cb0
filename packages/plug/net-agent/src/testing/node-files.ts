// SPDX-License-Identifier: Apache-2.0
// What the agent of a World finds in files of its node, beside its journal.
import { createDefinitionFiles, createDeviceInfoFiles, createResultCache } from "@patchbay/cni";
import type { Files } from "@patchbay/core/ports";
import { createSilentLogger } from "@patchbay/telemetry";
import type { Deps } from "../deps.ts";

/** The node's directory of definitions. */
export const DEFINITIONS = "/definitions";
/** The node's directory of what is told of devices. */
export const DEVICE_INFO = "/devinfo";

/** On the files of a node. */
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
