// SPDX-License-Identifier: Apache-2.0
// How was an attachment made that the pod's runtime made? libcni remembers it on disk. Source: CNI libcni/api.go, "cache".
import { isJsonObject, parseJson, type JsonObject } from "@patchbay/api";
import type { AttachmentName, AttachmentRequest, CniResult, Files } from "@patchbay/core/ports";
import { AppError } from "@patchbay/core";
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
  /** Whether anybody has ever remembered anything here, as far as can be seen. */
  isKept(): Promise<boolean>;
  /**
   * The attachments of one network, by its name in configurations.
   * @throws AppError with CNI_GC_HELD when one that may be of it cannot be read
   */
  namesOf(network: string): Promise<readonly AttachmentName[]>;
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

type CacheFiles = Pick<Files, "list" | "readText" | "remove" | "exists">;

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

/** Of a file that begins with the network's name, which others may begin with too; undefined: it is another's. */
async function nameIn(
  files: CacheFiles,
  path: string,
  network: string,
): Promise<AttachmentName | undefined> {
  const text = await files.readText(path);
  if (text === undefined) return undefined; // forgotten meanwhile
  const entry = parseJson(text);
  const { kind, networkName, containerId, ifName } = isJsonObject(entry) ? entry : {};
  const isKnown = kind === KIND && typeof containerId === "string" && typeof ifName === "string";
  if (isKnown && typeof networkName === "string") {
    return networkName === network ? { containerId, interfaceName: ifName } : undefined;
  }
  throw new AppError("CNI_GC_HELD", { network, reason: `${path} cannot be read` });
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
    isKept: async () => {
      const all = await Promise.all(dirs.map((dir) => files.exists(`${dir}/results`)));
      return all.includes(true);
    },
    namesOf: async (network) => {
      const found: AttachmentName[] = [];
      for (const path of await listPaths(files, dirs)) {
        if (!path.includes(`/results/${network}-`)) continue;
        const name = await nameIn(files, path, network);
        if (name !== undefined) found.push(name);
      }
      return found;
    },
    forget: ({ path }) => files.remove(path),
  };
}
