// SPDX-License-Identifier: Apache-2.0
// Finds the sandbox of a pod where the node runtime wrote it.
import { isJsonObject, parseJson, type JsonObject } from "@patchbay/api";
import type { Files, Sandbox, Sandboxes } from "@patchbay/ports";

function hasTexts(value: unknown, keys: readonly string[]): value is JsonObject {
  return isJsonObject(value) && keys.every((key) => typeof value[key] === "string");
}

function isSandbox(value: unknown): value is Sandbox {
  return (
    hasTexts(value, ["id", "podUid", "netnsPath", "netnsInode"]) &&
    (value["pod"] === undefined || hasTexts(value["pod"], ["namespace", "name"]))
  );
}

/** Reads `PODS_DIR/<uid>/sandbox.json`, which the node runtime writes when the namespace is ready. */
export function createNodeRuntimeSandboxes(
  files: Pick<Files, "readText">,
  podsDir: string,
): Sandboxes {
  return {
    find: async (podUid) => {
      if (!/^[a-zA-Z0-9][a-zA-Z0-9-]*$/.test(podUid)) return undefined;
      const sandbox = parseJson(await files.readText(`${podsDir}/${podUid}/sandbox.json`));
      return isSandbox(sandbox) && sandbox.podUid === podUid ? sandbox : undefined;
    },
  };
}
