// SPDX-License-Identifier: Apache-2.0
// Finds registry credentials in a pod's pull secrets. Source: page "Images" of the Kubernetes documentation.
import { SECRETS } from "@patchbay/api";
import { isJsonObject, parseJson, type JsonObject } from "@patchbay/api/json";
import type { Secret, Pod } from "@patchbay/api/kubernetes";
import { fullReference, parseRepository } from "@patchbay/containerd";
import type { RegistryCredentials, Store } from "@patchbay/core/interfaces";

interface CredentialEntry {
  /** Registry host with optional port. A DNS label may contain the wildcard `*`. */
  readonly host: string;
  /** Repository prefix without leading and trailing slashes; empty for the whole registry. */
  readonly path: string;
  readonly credentials: RegistryCredentials;
}

/** Aliases of docker.io in docker configurations. Source: registry/config.go of Moby. */
const REGISTRY_ALIASES: Readonly<Record<string, string>> = {
  "index.docker.io": "docker.io",
  "registry-1.docker.io": "docker.io",
};

function readText(value: JsonObject, key: string): string | undefined {
  const text = value[key];
  return typeof text === "string" && text !== "" ? text : undefined;
}

/** Parses the login: an identity token, a username with a password, or `auth`, which is USERNAME:PASSWORD in base64. */
function parseLogin(entry: JsonObject): RegistryCredentials | undefined {
  const [name, ...passwordParts] = Buffer.from(readText(entry, "auth") ?? "", "base64")
    .toString()
    .split(":");
  const username = readText(entry, "username") ?? name;
  const password = readText(entry, "password") ?? passwordParts.join(":");
  const identityToken = readText(entry, "identitytoken");
  if (identityToken !== undefined) return { identityToken };
  return username === undefined || username === "" ? undefined : { username, password };
}

/** Longer ones match no image. A host has at most 259 characters with its port, and a repository 255. Source: distribution/reference */
const REGISTRY_MAX_LENGTH = 1024;

function parseEntry(registry: string, value: unknown): readonly CredentialEntry[] {
  if (registry.length > REGISTRY_MAX_LENGTH) return [];
  const credentials = isJsonObject(value) ? parseLogin(value) : undefined;
  if (credentials === undefined) return [];
  const [host = "", ...path] = registry.replace(/^https?:\/\//, "").split("/");
  const isVersion = /^v[12]$/.test(path[0] ?? "");
  const parts = (isVersion ? path.slice(1) : path).filter((part) => part !== "");
  return [{ host: REGISTRY_ALIASES[host] ?? host, path: parts.join("/"), credentials }];
}

function listEntries({ data = {} }: Secret): readonly CredentialEntry[] {
  const read = (key: string): unknown =>
    parseJson(Buffer.from(data[key] ?? "", "base64").toString());
  const config = read(".dockerconfigjson");
  const legacyAuths = read(".dockercfg");
  const auths = isJsonObject(config) ? config["auths"] : legacyAuths;
  if (!isJsonObject(auths)) return [];
  return Object.entries(auths).flatMap(([registry, value]) => parseEntry(registry, value));
}

/** Returns whether the text matches the pattern, in which `*` matches any text. Takes linear time. */
function matchesWildcard(pattern: string, text: string): boolean {
  const [prefix = "", ...parts] = pattern.split("*");
  const suffix = parts.pop();
  if (suffix === undefined) return text === prefix;
  if (!text.startsWith(prefix)) return false;
  let position = prefix.length;
  for (const part of parts) {
    const index = text.indexOf(part, position);
    if (index < 0) return false;
    position = index + part.length;
  }
  return text.length - position >= suffix.length && text.endsWith(suffix);
}

/** Compares DNS labels one by one, so that `*.example.org` matches neither `example.org` nor `a.b.example.org`. */
function matchesHost(pattern: string, host: string): boolean {
  const labels = pattern.split(".");
  const hostLabels = host.split(".");
  return (
    labels.length === hostLabels.length &&
    labels.every((label, index) => matchesWildcard(label, hostLabels[index] ?? ""))
  );
}

/** Returns the matching credentials, longest path first. An empty list means an anonymous pull. @throws AppError with IMAGE_NAME_INVALID */
export function selectCredentials(
  reference: string,
  secrets: readonly Secret[],
): readonly RegistryCredentials[] {
  const [host = "", ...path] = parseRepository(fullReference(reference)).split("/");
  const name = path.join("/");
  return secrets
    .flatMap(listEntries)
    .filter((credential) => matchesHost(credential.host, host))
    .filter((one) => one.path === "" || `${name}/`.startsWith(`${one.path}/`))
    .toSorted((a, b) => b.path.length - a.path.length)
    .map(({ credentials }) => credentials);
}

/** Returns the pull secrets that exist. A missing secret is not an error, because the registry may not require credentials. */
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
  return selectCredentials(reference, await readPullSecrets(store, pod));
}
