// SPDX-License-Identifier: Apache-2.0
// Which server does a kubeconfig name, and with which credentials? Files that it names are read anew at each
// call of `readCredentials`, so that rotated ones are seen.
import { isJsonObject } from "@patchbay/api";
import { readFile } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { AppError, messageOf } from "@patchbay/core";
import {
  newClusters,
  newContexts,
  newUsers,
  type Cluster,
  type Context,
  type User,
} from "@kubernetes/client-node/dist/config_types.js";
import { findClusterServer, SERVICE_ACCOUNT_DIRECTORY } from "./config.ts";
import { ExecPlugin, type PluginCredentials } from "./kubeconfig-exec.ts";

/** What a connection and its requests carry. */
export interface Credentials {
  /** PEM text. */
  readonly ca?: string;
  /** PEM text of the client certificate. */
  readonly cert?: string;
  /** PEM text. */
  readonly key?: string;
  /** Bearer token. */
  readonly token?: string;
  readonly password?: string;
  readonly username?: string;
}

/** A server and the way to its credentials. */
export interface KubeConfig {
  /** For example `https://127.0.0.1:6443`, without a slash at its end. */
  readonly server: string;
  /** The namespace of the context, when it names one. */
  readonly namespace?: string;
  readonly tlsServerName?: string;
  readonly proxyUrl?: string;
  readonly skipTlsVerify: boolean;
  /** User to act as. */
  readonly impersonate?: string;
  /**
   * Reads the credentials as they are now; `isRefused` says that the server did not accept the last ones.
   * @throws AppError with KUBE_CONFIG_INVALID when a file cannot be read or a plugin fails.
   */
  readonly readCredentials: (isRefused?: boolean) => Promise<Credentials>;
}

/** Where to look. */
export interface KubeConfigSource {
  /** File to read; absent: the cluster that this process runs in. */
  readonly kubeconfig?: string;
  /** Where that cluster mounts the account of this process; default Kubernetes' own place. */
  readonly accountDirectory?: string;
}

/** The raw fields that the library's parser leaves out. */
interface RawUser {
  readonly name?: unknown;
  readonly user?: { readonly tokenFile?: unknown } | null;
}

interface Parsed {
  readonly path: string;
  readonly cluster: Cluster;
  readonly context: Context;
  readonly user: User | undefined;
  readonly tokenFile: string | undefined;
}

function invalid(path: string, reason: string, cause?: unknown): AppError {
  return new AppError("KUBE_CONFIG_INVALID", { path, reason }, { cause });
}

async function readText(path: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    throw invalid(path, messageOf(error), error);
  }
}

function tokenFileOf(users: unknown, name: string): string | undefined {
  if (!Array.isArray(users)) return undefined;
  const entries = users as readonly RawUser[]; // newUsers has checked that the entries are named objects
  const file = entries.find((entry) => entry.name === name)?.user?.tokenFile;
  return typeof file === "string" ? file : undefined;
}

function findNamed<T extends { readonly name: string }>(
  entries: readonly T[],
  name: string,
): T | undefined {
  return entries.find((entry) => entry.name === name);
}

/** What Patchbay itself writes is JSON, which is YAML too: a service then goes without the library, which takes 10 MB. */
async function parseText(text: string): Promise<unknown> {
  try {
    return JSON.parse(text);
  } catch {
    const { parse } = await import("yaml");
    return parse(text);
  }
}

async function parseKubeConfig(path: string, text: string): Promise<Parsed> {
  const document = await parseText(text);
  if (!isJsonObject(document)) throw invalid(path, "it is not a mapping");
  const contextName = document["current-context"];
  if (typeof contextName !== "string" || contextName === "") {
    throw invalid(path, "it names no current-context");
  }
  const context = findNamed(newContexts(document["contexts"]), contextName);
  if (context === undefined) throw invalid(path, `there is no context ${contextName}`);
  const cluster = findNamed(newClusters(document["clusters"]), context.cluster);
  if (cluster === undefined) throw invalid(path, `there is no cluster ${context.cluster}`);
  const user = findNamed(newUsers(document["users"]), context.user);
  const tokenFile = tokenFileOf(document["users"], context.user);
  return { path, cluster, context, user, tokenFile };
}

async function tryParse(path: string, text: string): Promise<Parsed> {
  try {
    return await parseKubeConfig(path, text);
  } catch (error) {
    if (error instanceof AppError) throw error;
    throw invalid(path, messageOf(error), error);
  }
}

/** Embedded base64 text, else the file, whose path is relative to the kubeconfig's folder. */
async function readMaterial(
  path: string,
  data: string | undefined,
  file: string | undefined,
): Promise<string | undefined> {
  if (data !== undefined) return Buffer.from(data, "base64").toString("utf8");
  if (file === undefined) return undefined;
  return readText(resolve(dirname(path), file));
}

async function readToken(parsed: Parsed): Promise<string | undefined> {
  const { path, user, tokenFile } = parsed;
  if (tokenFile !== undefined) return (await readText(resolve(dirname(path), tokenFile))).trim();
  return user?.token;
}

function passwordOf(user: User | undefined): Pick<Credentials, "username" | "password"> {
  return user?.username == null ? {} : { username: user.username, password: user.password ?? "" };
}

type Maybe = { readonly [K in keyof Credentials]?: string | null | undefined };

function compact(fields: Maybe): Credentials {
  const present = Object.entries(fields).filter(([, value]) => value != null && value !== "");
  return Object.fromEntries(present);
}

async function readCredentials(
  parsed: Parsed,
  plugin: Partial<PluginCredentials>,
): Promise<Credentials> {
  const { path, cluster, user } = parsed;
  return compact({
    ca: await readMaterial(path, cluster.caData, cluster.caFile),
    cert: plugin.cert ?? (await readMaterial(path, user?.certData, user?.certFile)),
    key: plugin.key ?? (await readMaterial(path, user?.keyData, user?.keyFile)),
    token: plugin.token ?? (await readToken(parsed)),
    ...passwordOf(user),
  });
}

async function loadFile(path: string): Promise<KubeConfig> {
  const parsed = await tryParse(path, await readText(path));
  const { cluster, context, user } = parsed;
  if (user?.authProvider != null) {
    throw invalid(path, "auth-provider is not supported; use exec, a token or a certificate");
  }
  const plugin = user?.exec == null ? undefined : new ExecPlugin(path, user);
  return {
    server: cluster.server,
    skipTlsVerify: cluster.skipTLSVerify,
    ...(context.namespace !== undefined && { namespace: context.namespace }),
    ...(cluster.tlsServerName !== undefined && { tlsServerName: cluster.tlsServerName }),
    ...(cluster.proxyUrl !== undefined && { proxyUrl: cluster.proxyUrl }),
    ...(user?.impersonateUser !== undefined && { impersonate: user.impersonateUser }),
    readCredentials: async (isRefused = false) =>
      readCredentials(parsed, (await plugin?.read(isRefused)) ?? {}),
  };
}

async function loadInCluster(directory: string): Promise<KubeConfig> {
  const server = findClusterServer();
  if (server === undefined) {
    throw invalid(
      "(in-cluster)",
      "this process does not run in a cluster; name a file with --kubeconfig",
    );
  }
  const namespace = (await readText(resolve(directory, "namespace"))).trim();
  return {
    server,
    namespace,
    skipTlsVerify: false,
    readCredentials: async () => ({
      ca: await readText(resolve(directory, "ca.crt")),
      token: (await readText(resolve(directory, "token"))).trim(),
    }),
  };
}

/**
 * Reads a kubeconfig, or without one the configuration that Kubernetes gives to each pod.
 * @throws AppError with KUBE_CONFIG_INVALID
 */
export async function loadKubeConfig({
  kubeconfig,
  accountDirectory = SERVICE_ACCOUNT_DIRECTORY,
}: KubeConfigSource): Promise<KubeConfig> {
  return kubeconfig === undefined ? loadInCluster(accountDirectory) : loadFile(kubeconfig);
}
