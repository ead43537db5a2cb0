// SPDX-License-Identifier: Apache-2.0
// Attachments that container runtimes added, read from the result cache of libcni. Source: CNI libcni/api.go, "cache"
import { isJsonObject, parseJson, type JsonObject } from "@patchbay/api/json";
import type {
  AttachmentName,
  AttachmentRequest,
  CniResult,
  Files,
} from "@patchbay/core/interfaces";
import { AppError } from "@patchbay/base";
import { parseNetworkConfig, parseResult } from "./formats.ts";

export interface CachedAttachment extends Pick<
  AttachmentRequest,
  "config" | "args" | "capabilityArgs"
> {
  readonly result?: CniResult;
}

export interface RememberedAttachment {
  readonly attachment: CachedAttachment;
  readonly containerId: string;
  readonly interfaceName: string;
  readonly path: string;
}

/** Result caches of Multus and of the CRI runtime on this node. */
export interface ResultCache {
  list(): Promise<readonly RememberedAttachment[]>;
  /** Checks whether a result cache of Multus or of the CRI runtime exists on the node. */
  isInUse(): Promise<boolean>;
  /** Lists a network's attachments. @throws AppError with CNI_GC_HELD if an unreadable file may belong to the network */
  listNames(network: string): Promise<readonly AttachmentName[]>;
  forget(attachment: RememberedAttachment): Promise<void>;
  find(containerId: string, interfaceName: string): Promise<CachedAttachment | undefined>;
}

/** Source: CNI libcni/api.go CNICacheV1 */
const CACHE_KIND = "cniCacheV1";

function isPair(value: unknown): value is readonly [string, string] {
  return (
    Array.isArray(value) && value.length === 2 && value.every((part) => typeof part === "string")
  );
}

function decodeBase64(base64: unknown): string {
  return typeof base64 === "string" ? Buffer.from(base64, "base64").toString("utf8") : "";
}

function parseEntry(value: JsonObject): CachedAttachment | undefined {
  const { networkName, config, cniArgs, capabilityArgs, result } = value;
  const parsed = parseNetworkConfig(decodeBase64(config), String(networkName));
  if (!parsed.ok) return undefined;
  const parsedResult = isJsonObject(result)
    ? parseResult(JSON.stringify(result), parsed.config.cniVersion)
    : undefined;
  return {
    config: parsed.config,
    args: Array.isArray(cniArgs) ? cniArgs.filter(isPair) : [],
    capabilityArgs: isJsonObject(capabilityArgs) ? capabilityArgs : {},
    ...(parsedResult === undefined ? {} : { result: parsedResult }),
  };
}

type CacheFiles = Pick<Files, "list" | "readText" | "remove" | "exists">;

/** Reads container ID and interface name from the file's content, because hyphens make the file's name ambiguous. */
async function readEntry(
  files: CacheFiles,
  path: string,
): Promise<RememberedAttachment | undefined> {
  const entry = parseJson(await files.readText(path));
  if (!isJsonObject(entry) || entry["kind"] !== CACHE_KIND) return undefined;
  const { containerId, ifName: interfaceName } = entry;
  const attachment = parseEntry(entry);
  if (attachment === undefined) return undefined;
  if (typeof containerId !== "string" || typeof interfaceName !== "string") return undefined;
  return { attachment, containerId, interfaceName, path };
}

async function listPaths(files: CacheFiles, dirs: readonly string[]): Promise<readonly string[]> {
  const paths = await Promise.all(
    dirs.map(async (dir) =>
      (await files.list(`${dir}/results`)).map((name) => `${dir}/results/${name}`),
    ),
  );
  return paths.flat();
}

async function readName(
  files: CacheFiles,
  path: string,
  network: string,
): Promise<AttachmentName | undefined> {
  const text = await files.readText(path);
  if (text === undefined) return undefined;
  const entry = parseJson(text);
  const { kind, networkName, containerId, ifName } = isJsonObject(entry) ? entry : {};
  const isKnown =
    kind === CACHE_KIND && typeof containerId === "string" && typeof ifName === "string";
  if (isKnown && typeof networkName === "string") {
    return networkName === network ? { containerId, interfaceName: ifName } : undefined;
  }
  throw new AppError("CNI_GC_HELD", { network, reason: `${path} cannot be read` });
}

export function createResultCache(files: CacheFiles, dirs: readonly string[]): ResultCache {
  return {
    find: async (containerId, interfaceName) => {
      for (const path of await listPaths(files, dirs)) {
        if (!path.endsWith(`-${containerId}-${interfaceName}`)) continue;
        const entry = await readEntry(files, path);
        const isRequested =
          entry?.containerId === containerId && entry.interfaceName === interfaceName;
        if (isRequested) return entry.attachment;
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
    isInUse: async () => {
      const existing = await Promise.all(dirs.map((dir) => files.exists(`${dir}/results`)));
      return existing.includes(true);
    },
    listNames: async (network) => {
      const attachments: AttachmentName[] = [];
      for (const path of await listPaths(files, dirs)) {
        if (!path.includes(`/results/${network}-`)) continue;
        const name = await readName(files, path, network);
        if (name !== undefined) attachments.push(name);
      }
      return attachments;
    },
    forget: ({ path }) => files.remove(path),
  };
}
