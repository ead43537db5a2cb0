// SPDX-License-Identifier: Apache-2.0
// How was an attachment made that the pod's runtime made? libcni remembers it on disk. Source: CNI libcni/api.go, "cache".
import { isJsonObject, parseJson, type JsonObject } from "@patchbay/api";
import type { AttachmentRequest, CniResult, Files } from "@patchbay/core/ports";
import { parseNetworkConfig } from "./network-config.ts";
import { parseResult } from "./result.ts";

/** What a runtime has done, as far as its DEL needs it. */
export interface CachedAttachment extends Pick<
  AttachmentRequest,
  "config" | "args" | "capabilityArgs"
> {
  readonly result?: CniResult;
}

/** What the runtimes of this machine (Multus, the kubelet's CRI) remember of their attachments. */
export interface ResultCache {
  /** The attachment of that sandbox and NIC; undefined when nothing that can be read is remembered. */
  find(containerId: string, interfaceName: string): Promise<CachedAttachment | undefined>;
}

/** Source: CNI libcni/api.go CNICacheV1. */
const KIND = "cniCacheV1";

function isPair(value: unknown): value is readonly [string, string] {
  return (
    Array.isArray(value) && value.length === 2 && value.every((part) => typeof part === "string")
  );
}

function textOf(base64: unknown): string {
  return typeof base64 === "string" ? Buffer.from(base64, "base64").toString("utf8") : "";
}

function parseEntry(value: JsonObject): CachedAttachment | undefined {
  const { networkName, config, cniArgs, capabilityArgs, result } = value;
  const parsed = parseNetworkConfig(textOf(config), String(networkName));
  if (!parsed.ok) return undefined;
  const known = isJsonObject(result)
    ? parseResult(JSON.stringify(result), parsed.config.cniVersion)
    : undefined;
  return {
    config: parsed.config,
    args: Array.isArray(cniArgs) ? cniArgs.filter(isPair) : [],
    capabilityArgs: isJsonObject(capabilityArgs) ? capabilityArgs : {},
    ...(known === undefined ? {} : { result: known }),
  };
}

function isEntryOf(
  entry: unknown,
  containerId: string,
  interfaceName: string,
): entry is JsonObject {
  return (
    isJsonObject(entry) &&
    entry["kind"] === KIND &&
    entry["containerId"] === containerId &&
    entry["ifName"] === interfaceName
  );
}

/** Looks into `DIR/results` of each directory, in order. */
export function createResultCache(
  files: Pick<Files, "list" | "readText">,
  dirs: readonly string[],
): ResultCache {
  return {
    find: async (containerId, interfaceName) => {
      for (const dir of dirs) {
        const names = await files.list(`${dir}/results`);
        for (const name of names) {
          if (!name.endsWith(`-${containerId}-${interfaceName}`)) continue;
          const entry = parseJson(await files.readText(`${dir}/results/${name}`));
          if (isEntryOf(entry, containerId, interfaceName)) return parseEntry(entry);
        }
      }
      return undefined;
    },
  };
}
