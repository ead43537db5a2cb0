// SPDX-License-Identifier: Apache-2.0
// Parses the current context of a kubeconfig with its cluster and user. Source: client-go tools/clientcmd/api/v1
import { isJsonObject, type JsonObject } from "@patchbay/api/json";

export interface Cluster {
  readonly name: string;
  /** URL of the server, without a trailing slash. */
  readonly server: string;
  /** Base64 of the CA certificates in PEM. */
  readonly caData: string | undefined;
  readonly caFile: string | undefined;
  readonly skipTlsVerify: boolean;
  readonly tlsServerName: string | undefined;
  readonly proxyUrl: string | undefined;
}

export interface User {
  readonly name: string;
  /** Base64 of the client certificate in PEM. */
  readonly certData: string | undefined;
  readonly certFile: string | undefined;
  /** Base64 of the private key in PEM. */
  readonly keyData: string | undefined;
  readonly keyFile: string | undefined;
  readonly token: string | undefined;
  readonly tokenFile: string | undefined;
  readonly username: string | undefined;
  readonly password: string | undefined;
  readonly impersonateUser: string | undefined;
  readonly exec: JsonObject | undefined;
  readonly hasAuthProvider: boolean;
}

interface Context {
  readonly name: string;
  readonly cluster: string;
  readonly user: string | undefined;
  readonly namespace: string | undefined;
}

export interface ParsedKubeConfig {
  readonly cluster: Cluster;
  readonly context: Context;
  /** User of the context. Undefined for anonymous access. */
  readonly user: User | undefined;
}

/** Returns a field as a string. Accepts numbers, because YAML parses a password of digits as a number. */
function findText(fields: JsonObject, name: string): string | undefined {
  const value = fields[name];
  if (typeof value === "number") return String(value);
  return typeof value === "string" ? value : undefined;
}

/** Returns a required field as a string. `path` is the path of `fields` in the kubeconfig, for error messages. */
function requireText(fields: JsonObject, name: string, path: string): string {
  const text = findText(fields, name);
  if (text === undefined || text === "") throw new Error(`${path}.${name} is missing`);
  return text;
}

function requireFields(fields: JsonObject, name: string, path: string): JsonObject {
  const value = fields[name];
  if (isJsonObject(value)) return value;
  throw new Error(`${path}.${name} is missing`);
}

function toCluster(entry: JsonObject, path: string): Cluster {
  const name = requireText(entry, "name", path);
  const fields = requireFields(entry, "cluster", path);
  return {
    name,
    server: requireText(fields, "server", `${path}.cluster`).replace(/\/$/, ""),
    caData: findText(fields, "certificate-authority-data"),
    caFile: findText(fields, "certificate-authority"),
    skipTlsVerify: fields["insecure-skip-tls-verify"] === true,
    tlsServerName: findText(fields, "tls-server-name"),
    proxyUrl: findText(fields, "proxy-url"),
  };
}

function toContext(entry: JsonObject, path: string): Context {
  const name = requireText(entry, "name", path);
  const fields = requireFields(entry, "context", path);
  const namespace = findText(fields, "namespace");
  return {
    name,
    cluster: requireText(fields, "cluster", `${path}.context`),
    user: findText(fields, "user"),
    namespace: namespace === "" ? undefined : namespace,
  };
}

function toUser(entry: JsonObject, path: string): User {
  const fields = isJsonObject(entry["user"]) ? entry["user"] : {};
  const { exec, "auth-provider": authProvider } = fields;
  return {
    name: requireText(entry, "name", path),
    certData: findText(fields, "client-certificate-data"),
    certFile: findText(fields, "client-certificate"),
    keyData: findText(fields, "client-key-data"),
    keyFile: findText(fields, "client-key"),
    token: findText(fields, "token"),
    tokenFile: findText(fields, "tokenFile"),
    username: findText(fields, "username"),
    password: findText(fields, "password"),
    impersonateUser: findText(fields, "as"),
    exec: isJsonObject(exec) ? exec : undefined,
    hasAuthProvider: authProvider !== undefined && authProvider !== null,
  };
}

/** Creates a lookup of entries by name. Throws if any entry in the list is malformed. */
function createLookup<T extends { readonly name: string }>(
  document: JsonObject,
  list: "clusters" | "contexts" | "users",
  convert: (entry: JsonObject, path: string) => T,
): (name: string | undefined) => T | undefined {
  const entries: unknown = document[list];
  if (!Array.isArray(entries)) return () => undefined;
  const converted = entries.map((entry, index) =>
    convert(isJsonObject(entry) ? entry : {}, `${list}[${String(index)}]`),
  );
  return (name) => converted.find((item) => item.name === name);
}

/** Tries JSON first, because the YAML library needs 10 MB of memory. */
async function parseText(text: string): Promise<unknown> {
  try {
    return JSON.parse(text);
  } catch {
    const { parse } = await import("yaml");
    return parse(text);
  }
}

/** Parses the current context of a kubeconfig. @throws Error whose message is the reason */
export async function parseKubeConfig(text: string): Promise<ParsedKubeConfig> {
  const document = await parseText(text);
  if (!isJsonObject(document)) throw new Error("it is not a mapping");
  const contextName = findText(document, "current-context");
  if (contextName === undefined || contextName === "") {
    throw new Error("it names no current-context");
  }
  const context = createLookup(document, "contexts", toContext)(contextName);
  if (context === undefined) throw new Error(`there is no context ${contextName}`);
  const cluster = createLookup(document, "clusters", toCluster)(context.cluster);
  if (cluster === undefined) throw new Error(`there is no cluster ${context.cluster}`);
  return { context, cluster, user: createLookup(document, "users", toUser)(context.user) };
}
