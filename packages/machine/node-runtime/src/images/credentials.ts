// SPDX-License-Identifier: Apache-2.0
// As whom is an image fetched? Pure. Source: Kubernetes, "Images", pull secrets and the reading of config.json.
import { isJsonObject, parseJson, type JsonObject, type Secret } from "@patchbay/api";
import { fullReference, repositoryOf } from "@patchbay/containerd";
import type { RegistryCredentials } from "@patchbay/core/ports";

/** One entry of a configuration: for which registry, or part of one, and what is told there. */
interface Entry {
  /** Host with port, which may have `*` in its labels. */
  readonly host: string;
  /** Without slashes at its ends; empty: all of the registry. */
  readonly path: string;
  readonly credentials: RegistryCredentials;
}

/** Other names that configurations have for the registry of short names. Source: docker, index server. */
const ALIASES: Readonly<Record<string, string>> = {
  "index.docker.io": "docker.io",
  "registry-1.docker.io": "docker.io",
};

function textOf(value: JsonObject, key: string): string | undefined {
  const text = value[key];
  return typeof text === "string" && text !== "" ? text : undefined;
}

/** Name and password, also as base64 of both with a colon between. */
function loginOf(entry: JsonObject): RegistryCredentials | undefined {
  const [name, ...rest] = Buffer.from(textOf(entry, "auth") ?? "", "base64")
    .toString()
    .split(":");
  const username = textOf(entry, "username") ?? name;
  const password = textOf(entry, "password") ?? rest.join(":");
  const identityToken = textOf(entry, "identitytoken");
  if (identityToken !== undefined) return { identityToken };
  return username === undefined || username === "" ? undefined : { username, password };
}

function entryOf(registry: string, value: unknown): readonly Entry[] {
  const credentials = isJsonObject(value) ? loginOf(value) : undefined;
  if (credentials === undefined) return [];
  const [host = "", ...path] = registry.replace(/^https?:\/\//, "").split("/");
  const isVersion = /^v[12]$/.test(path[0] ?? "");
  const parts = (isVersion ? path.slice(1) : path).filter((part) => part !== "");
  return [{ host: ALIASES[host] ?? host, path: parts.join("/"), credentials }];
}

function entriesOf({ data = {} }: Secret): readonly Entry[] {
  const read = (key: string): unknown =>
    parseJson(Buffer.from(data[key] ?? "", "base64").toString());
  const config = read(".dockerconfigjson");
  const old = read(".dockercfg");
  const auths = isJsonObject(config) ? config["auths"] : old;
  if (!isJsonObject(auths)) return [];
  return Object.entries(auths).flatMap(([registry, value]) => entryOf(registry, value));
}

/** Whether the text is the pattern with something, or nothing, for each `*`; the first place that fits is taken. */
function fits(pattern: string, text: string): boolean {
  const [start = "", ...parts] = pattern.split("*");
  const end = parts.pop();
  if (end === undefined) return text === start;
  if (!text.startsWith(start)) return false;
  let next = start.length;
  for (const part of parts) {
    const found = text.indexOf(part, next);
    if (found < 0) return false;
    next = found + part.length;
  }
  return text.length - next >= end.length && text.endsWith(end);
}

/** Label by label, so that `*.example.org` is not `example.org`, nor what is below a name below it. */
function isOfHost(pattern: string, host: string): boolean {
  const labels = pattern.split(".");
  const own = host.split(".");
  return (
    labels.length === own.length && labels.every((label, index) => fits(label, own[index] ?? ""))
  );
}

/**
 * What to tell the registry of the image, the most fitting first; none: it is asked as nobody.
 * @throws AppError with IMAGE_NAME_INVALID
 */
export function credentialsFor(
  reference: string,
  secrets: readonly Secret[],
): readonly RegistryCredentials[] {
  const [host = "", ...path] = repositoryOf(fullReference(reference)).split("/");
  const name = path.join("/");
  return secrets
    .flatMap(entriesOf)
    .filter((one) => isOfHost(one.host, host))
    .filter((one) => one.path === "" || `${name}/`.startsWith(`${one.path}/`))
    .toSorted((a, b) => b.path.length - a.path.length)
    .map(({ credentials }) => credentials);
}
