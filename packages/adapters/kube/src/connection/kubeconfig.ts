// SPDX-License-Identifier: Apache-2.0
// Kubeconfig files and in-cluster configuration. `readCredentials` reads the files again at each call, so that
// rotated credentials take effect.
import { readFile } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import {
  type Cluster,
  type Context,
  newClusters,
  newContexts,
  newUsers,
  type User,
} from "@kubernetes/client-node/dist/config_types.js";
import type { ExecAuth } from "@kubernetes/client-node/dist/exec_auth.js";
import { isJsonObject } from "@patchbay/api";
import { AppError, messageOf } from "@patchbay/base";
import { SERVICE_ACCOUNT_DIRECTORY, findClusterServer } from "./config.ts";

/** Milliseconds; the plugin may prompt a person. */
const PLUGIN_TIMEOUT_MS = 60_000;

/** Source: Kubernetes client.authentication.k8s.io/v1 ExecCredentialStatus */
interface PluginCredentials {
  readonly cert: string | undefined;
  readonly key: string | undefined;
  readonly token: string | undefined;
}

/** The library writes the plugin's credentials into this object. */
interface ExecOptions {
  cert?: string;
  key?: string;
  headers?: Record<string, string>;
}

function startDeadline(): { readonly promise: Promise<never>; readonly end: () => void } {
  const { promise, reject } = Promise.withResolvers<never>();
  const deadline = AbortSignal.timeout(PLUGIN_TIMEOUT_MS);
  deadline.onabort = () => {
    reject(new Error(`it took more than ${String(PLUGIN_TIMEOUT_MS)} ms`));
  };
  return {
    promise,
    end: () => {
      deadline.onabort = null;
    },
  };
}

/** The exec plugin of one user. Credentials are reused until they expire. */
class ExecPlugin {
  readonly #path: string;
  readonly #user: User;
  #auth: ExecAuth | undefined;

  constructor(path: string, user: User) {
    this.#path = path;
    this.#user = user;
  }

  /** Runs the plugin if credentials are missing, expired or rejected. @throws AppError with KUBE_CONFIG_INVALID */
  async read(isRefused: boolean): Promise<PluginCredentials> {
    const deadline = startDeadline();
    try {
      return await Promise.race([this.#run(isRefused), deadline.promise]);
    } catch (error) {
      throw new AppError(
        "KUBE_CONFIG_INVALID",
        { path: this.#path, reason: `exec plugin: ${messageOf(error)}` },
        { cause: error },
      );
    } finally {
      deadline.end();
    }
  }

  async #run(isRefused: boolean): Promise<PluginCredentials> {
    const library = await import("@kubernetes/client-node/dist/exec_auth.js");
    // The library caches credentials in the instance.
    if (isRefused || this.#auth === undefined) this.#auth = new library.ExecAuth();
    const received: ExecOptions = {};
    await this.#auth.applyAuthentication(this.#user, received);
    const { cert, key, headers } = received;
    return { cert, key, token: headers?.["Authorization"]?.replace(/^Bearer /, "") };
  }
}

export interface Credentials {
  /** PEM. */
  readonly ca?: string;
  /** Client certificate, PEM. */
  readonly cert?: string;
  /** PEM. */
  readonly key?: string;
  readonly token?: string;
  readonly password?: string;
  readonly username?: string;
}

export interface KubeConfig {
  /** For example `https://127.0.0.1:6443`, without a trailing slash. */
  readonly server: string;
  readonly namespace?: string;
  readonly tlsServerName?: string;
  readonly proxyUrl?: string;
  readonly skipTlsVerify: boolean;
  readonly impersonate?: string;
  /** `isRefused`: the server rejected the previous ones. @throws AppError with KUBE_CONFIG_INVALID */
  readonly readCredentials: (isRefused?: boolean) => Promise<Credentials>;
}

interface KubeConfigSource {
  /** File to read; unset for the cluster that this process runs in. */
  readonly kubeconfig?: string;
  /** Where that cluster mounts the service account of this process. Default: the path that Kubernetes uses. */
  readonly accountDirectory?: string;
}

interface RawUser {
  readonly name?: unknown;
  readonly user?: { readonly tokenFile?: unknown } | null;
}

interface ParsedKubeConfig {
  readonly path: string;
  readonly cluster: Cluster;
  readonly context: Context;
  readonly user: User | undefined;
  readonly tokenFile: string | undefined;
}

function invalidConfig(path: string, reason: string, cause?: unknown): AppError {
  return new AppError("KUBE_CONFIG_INVALID", { path, reason }, { cause });
}

async function readText(path: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    throw invalidConfig(path, messageOf(error), error);
  }
}

function findTokenFile(users: unknown, name: string): string | undefined {
  if (!Array.isArray(users)) return undefined;
  const entries = users as readonly RawUser[]; // newUsers has checked the entries
  const file = entries.find((entry) => entry.name === name)?.user?.tokenFile;
  return typeof file === "string" ? file : undefined;
}

function findNamed<T extends { readonly name: string }>(
  entries: readonly T[],
  name: string,
): T | undefined {
  return entries.find((entry) => entry.name === name);
}

/** Patchbay writes JSON, which is YAML. It needs no YAML library, which takes 10 MB. */
async function parseText(text: string): Promise<unknown> {
  try {
    return JSON.parse(text);
  } catch {
    const { parse } = await import("yaml");
    return parse(text);
  }
}

async function parseKubeConfig(path: string, text: string): Promise<ParsedKubeConfig> {
  const document = await parseText(text);
  if (!isJsonObject(document)) throw invalidConfig(path, "it is not a mapping");
  const contextName = document["current-context"];
  if (typeof contextName !== "string" || contextName === "") {
    throw invalidConfig(path, "it names no current-context");
  }
  const context = findNamed(newContexts(document["contexts"]), contextName);
  if (context === undefined) throw invalidConfig(path, `there is no context ${contextName}`);
  const cluster = findNamed(newClusters(document["clusters"]), context.cluster);
  if (cluster === undefined) throw invalidConfig(path, `there is no cluster ${context.cluster}`);
  const user = findNamed(newUsers(document["users"]), context.user);
  const tokenFile = findTokenFile(document["users"], context.user);
  return { path, cluster, context, user, tokenFile };
}

async function tryParse(path: string, text: string): Promise<ParsedKubeConfig> {
  try {
    return await parseKubeConfig(path, text);
  } catch (error) {
    if (error instanceof AppError) throw error;
    throw invalidConfig(path, messageOf(error), error);
  }
}

/** Returns embedded base64 text, otherwise the file's, whose path is relative to the kubeconfig. */
async function readMaterial(
  path: string,
  data: string | undefined,
  file: string | undefined,
): Promise<string | undefined> {
  if (data !== undefined) return Buffer.from(data, "base64").toString("utf8");
  if (file === undefined) return undefined;
  return readText(resolve(dirname(path), file));
}

async function readToken(parsed: ParsedKubeConfig): Promise<string | undefined> {
  const { path, user, tokenFile } = parsed;
  if (tokenFile !== undefined) return (await readText(resolve(dirname(path), tokenFile))).trim();
  return user?.token;
}

function readPassword(user: User | undefined): Pick<Credentials, "username" | "password"> {
  return user?.username == null ? {} : { username: user.username, password: user.password ?? "" };
}

type OptionalCredentials = { readonly [K in keyof Credentials]?: string | null | undefined };

function compact(fields: OptionalCredentials): Credentials {
  const present = Object.entries(fields).filter(([, value]) => value != null && value !== "");
  return Object.fromEntries(present);
}

async function readCredentials(
  parsed: ParsedKubeConfig,
  plugin: Partial<PluginCredentials>,
): Promise<Credentials> {
  const { path, cluster, user } = parsed;
  return compact({
    ca: await readMaterial(path, cluster.caData, cluster.caFile),
    cert: plugin.cert ?? (await readMaterial(path, user?.certData, user?.certFile)),
    key: plugin.key ?? (await readMaterial(path, user?.keyData, user?.keyFile)),
    token: plugin.token ?? (await readToken(parsed)),
    ...readPassword(user),
  });
}

async function loadFile(path: string): Promise<KubeConfig> {
  const parsed = await tryParse(path, await readText(path));
  const { cluster, context, user } = parsed;
  if (user?.authProvider != null) {
    throw invalidConfig(path, "auth-provider is not supported; use exec, a token or a certificate");
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
    throw invalidConfig(
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

/** Reads a kubeconfig, or without a path the in-cluster configuration. @throws AppError with KUBE_CONFIG_INVALID */
export async function loadKubeConfig({
  kubeconfig,
  accountDirectory = SERVICE_ACCOUNT_DIRECTORY,
}: KubeConfigSource): Promise<KubeConfig> {
  return kubeconfig === undefined ? loadInCluster(accountDirectory) : loadFile(kubeconfig);
}
