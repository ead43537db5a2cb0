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

/** An attachment as it is remembered, with whose it is. */
export interface RememberedAttachment {
  readonly attachment: CachedAttachment;
  readonly containerId: string;
  readonly interfaceName: string;
  /** File that remembers it, absolute. */
  readonly path: string;
}

/** What the runtimes of this machine (Multus, the kubelet's CRI) remember of their attachments. */
export interface ResultCache {
  /** All that can be read. */
  list(): Promise<readonly RememberedAttachment[]>;
  /** Forgets one; not there is success. */
  forget(attachment: RememberedAttachment): Promise<void>;
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

type CacheFiles = Pick<Files, "list" | "readText" | "remove">;

/** Its owner is in the file, since names of networks and of NICs may have hyphens as the file's own name has. */
async function readEntry(
  files: CacheFiles,
  path: string,
): Promise<RememberedAttachment | undefined> {
  const entry = parseJson(await files.readText(path));
  if (!isJsonObject(entry) || entry["kind"] !== KIND) return undefined;
  const { containerId, ifName: interfaceName } = entry;
  const attachment = parseEntry(entry);
  if (attachment === undefined) return undefined;
  if (typeof containerId !== "string" || typeof interfaceName !== "string") return undefined;
  return { attachment, containerId, interfaceName, path };
}

/** Files of `DIR/results` of each directory, in order. */
async function listPaths(files: CacheFiles, dirs: readonly string[]): Promise<readonly string[]> {
  const paths = await Promise.all(
    dirs.map(async (dir) =>
      (await files.list(`${dir}/results`)).map((name) => `${dir}/results/${name}`),
    ),
  );
  return paths.flat();
}

/** Looks into `DIR/results` of each directory, in order. */
export function createResultCache(files: CacheFiles, dirs: readonly string[]): ResultCache {
  return {
    find: async (containerId, interfaceName) => {
      for (const path of await listPaths(files, dirs)) {
        if (!path.endsWith(`-${containerId}-${interfaceName}`)) continue;
        const entry = await readEntry(files, path);
        const isIt = entry?.containerId === containerId && entry.interfaceName === interfaceName;
        if (isIt) return entry.attachment;
      }
      return undefined;
    },
    list: async () => {
      const entries: RememberedAttachment[] = [];
      for (const path of await listPaths(files, dirs)) {
        const entry = await readEntry(files, path);
        if (entry !== undefined) entries.push(entry);
      }
      return entries;
    },
    forget: ({ path }) => files.remove(path),
  };
}
