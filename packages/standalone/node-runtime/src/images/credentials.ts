// SPDX-License-Identifier: Apache-2.0
// Registry credentials from a pod's pull secrets. Source: page "Images" of the Kubernetes documentation.
import { SECRETS } from "@patchbay/api";
import { isJsonObject, parseJson, type JsonObject } from "@patchbay/api/json";
import type { Secret, Pod } from "@patchbay/api/kubernetes";
import { fullReference, repositoryOf } from "@patchbay/containerd";
import type { RegistryCredentials, Store } from "@patchbay/core/interfaces";

interface Entry {
  /** Registry host with optional port; its labels may contain `*`. */
  readonly host: string;
  /** Repository prefix without leading and trailing slashes; empty for the whole registry. */
  readonly path: string;
  readonly credentials: RegistryCredentials;
}

/** Aliases of docker.io in docker configurations. Source: index server of docker. */
const ALIASES: Readonly<Record<string, string>> = {
  "index.docker.io": "docker.io",
  "registry-1.docker.io": "docker.io",
};

function readText(value: JsonObject, key: string): string | undefined {
  const text = value[key];
  return typeof text === "string" && text !== "" ? text : undefined;
}

/** Parses an identity token, username and password, or `auth`, which is USERNAME:PASSWORD in base64. */
function parseLogin(entry: JsonObject): RegistryCredentials | undefined {
  const [name, ...rest] = Buffer.from(readText(entry, "auth") ?? "", "base64")
    .toString()
    .split(":");
  const username = readText(entry, "username") ?? name;
  const password = readText(entry, "password") ?? rest.join(":");
  const identityToken = readText(entry, "identitytoken");
  if (identityToken !== undefined) return { identityToken };
  return username === undefined || username === "" ? undefined : { username, password };
}

function parseEntry(registry: string, value: unknown): readonly Entry[] {
  const credentials = isJsonObject(value) ? parseLogin(value) : undefined;
  if (credentials === undefined) return [];
  const [host = "", ...path] = registry.replace(/^https?:\/\//, "").split("/");
  const isVersion = /^v[12]$/.test(path[0] ?? "");
  const parts = (isVersion ? path.slice(1) : path).filter((part) => part !== "");
  return [{ host: ALIASES[host] ?? host, path: parts.join("/"), credentials }];
}

function listEntries({ data = {} }: Secret): readonly Entry[] {
  const read = (key: string): unknown =>
    parseJson(Buffer.from(data[key] ?? "", "base64").toString());
  const config = read(".dockerconfigjson");
  const legacyAuths = read(".dockercfg");
  const auths = isJsonObject(config) ? config["auths"] : legacyAuths;
  if (!isJsonObject(auths)) return [];
  return Object.entries(auths).flatMap(([registry, value]) => parseEntry(registry, value));
}

/** Returns whether the text matches the pattern, in which `*` is any text. Takes linear time. */
function matchesWildcard(pattern: string, text: string): boolean {
  const [start = "", ...parts] = pattern.split("*");
  const end = parts.pop();
  if (end === undefined) return text === start;
  if (!text.startsWith(start)) return false;
  let next = start.length;
  for (const part of parts) {
    const index = text.indexOf(part, next);
    if (index < 0) return false;
    next = index + part.length;
  }
  return text.length - next >= end.length && text.endsWith(end);
}

/** Compares label by label, so that `*.example.org` matches neither `example.org` nor `a.b.example.org`. */
function matchesHost(pattern: string, host: string): boolean {
  const labels = pattern.split(".");
  const hostLabels = host.split(".");
  return (
    labels.length === hostLabels.length &&
    labels.every((label, index) => matchesWildcard(label, hostLabels[index] ?? ""))
  );
}

/**
 * Returns the matching credentials, longest path first; empty for an anonymous pull.
 * @throws AppError with IMAGE_NAME_INVALID
 */
export function credentialsFor(
  reference: string,
  secrets: readonly Secret[],
): readonly RegistryCredentials[] {
  const [host = "", ...path] = repositoryOf(fullReference(reference)).split("/");
  const name = path.join("/");
  return secrets
    .flatMap(listEntries)
    .filter((one) => matchesHost(one.host, host))
    .filter((one) => one.path === "" || `${name}/`.startsWith(`${one.path}/`))
    .toSorted((a, b) => b.path.length - a.path.length)
    .map(({ credentials }) => credentials);
}

/** Returns the pull secrets that exist. Missing secrets are no error, because the registry may not need them. */
async function readPullSecrets(store: Store, pod: Pod): Promise<readonly Secret[]> {
  const { namespace = "" } = pod.metadata;
  const names = (pod.spec.imagePullSecrets ?? []).map(({ name = "" }) => name);
  const lookups = names.map((name) => store.find(SECRETS, { namespace, name }));
  return (await Promise.all(lookups)).filter((secret) => secret !== undefined);
}

/** @throws AppError with IMAGE_NAME_INVALID */
export async function findPullCredentials(
  store: Store,
  pod: Pod,
  reference: string,
): Promise<readonly RegistryCredentials[]> {
  return credentialsFor(reference, await readPullSecrets(store, pod));
}
