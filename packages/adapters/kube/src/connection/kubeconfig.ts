// SPDX-License-Identifier: Apache-2.0
// Connection settings from a kubeconfig, or from the service account of this pod. Each call of `readCredentials` reads
// the certificate, key and token files again, because credentials rotate.
import { readFile } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { AppError, messageOf } from "@patchbay/base";
import { SERVICE_ACCOUNT_DIRECTORY, findClusterServer } from "./config.ts";
import { ExecPlugin, type PluginCredentials } from "./exec-plugin.ts";
import { parseKubeConfig, type ParsedKubeConfig, type User } from "./kubeconfig-file.ts";

/** Certificates and keys are in PEM. */
export interface Credentials {
  readonly ca?: string;
  readonly cert?: string;
  readonly key?: string;
  readonly token?: string;
  readonly password?: string;
  readonly username?: string;
}

export interface KubeConfig {
  /** URL without a trailing slash, for example `https://127.0.0.1:6443`. */
  readonly server: string;
  readonly namespace?: string;
  readonly tlsServerName?: string;
  readonly proxyUrl?: string;
  readonly skipTlsVerify: boolean;
  readonly impersonate?: string;
  /** Reads credentials. `isRefused` is true if the server rejected the previous credentials. @throws AppError with KUBE_CONFIG_INVALID */
  readonly readCredentials: (isRefused?: boolean) => Promise<Credentials>;
}

interface KubeConfigSource {
  /** Path of the kubeconfig. If unset, the client uses this pod's service account. */
  readonly kubeconfig?: string;
  /** Directory of the service account token. Default: the directory that Kubernetes mounts. */
  readonly accountDirectory?: string;
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

async function tryParse(path: string, text: string): Promise<ParsedKubeConfig> {
  try {
    return await parseKubeConfig(text);
  } catch (error) {
    throw invalidConfig(path, messageOf(error), error);
  }
}

/** Decodes the base64 `data`. If `data` is undefined, reads `file`, whose path is relative to the directory of the kubeconfig `path`. */
async function readMaterial(
  path: string,
  data: string | undefined,
  file: string | undefined,
): Promise<string | undefined> {
  if (data !== undefined) return Buffer.from(data, "base64").toString("utf8");
  if (file === undefined) return undefined;
  return readText(resolve(dirname(path), file));
}

async function readToken(path: string, user: User | undefined): Promise<string | undefined> {
  if (user?.tokenFile === undefined) return user?.token;
  return (await readText(resolve(dirname(path), user.tokenFile))).trim();
}

function readPassword(user: User | undefined): Pick<Credentials, "username" | "password"> {
  return user?.username === undefined
    ? {}
    : { username: user.username, password: user.password ?? "" };
}

type OptionalCredentials = { readonly [K in keyof Credentials]?: string | undefined };

function omitEmpty(fields: OptionalCredentials): Credentials {
  const presentFields = Object.entries(fields).filter(
    ([, value]) => value !== undefined && value !== "",
  );
  return Object.fromEntries(presentFields);
}

async function readCredentials(
  path: string,
  { cluster, user }: ParsedKubeConfig,
  plugin: Partial<PluginCredentials>,
): Promise<Credentials> {
  return omitEmpty({
    ca: await readMaterial(path, cluster.caData, cluster.caFile),
    cert: plugin.cert ?? (await readMaterial(path, user?.certData, user?.certFile)),
    key: plugin.key ?? (await readMaterial(path, user?.keyData, user?.keyFile)),
    token: plugin.token ?? (await readToken(path, user)),
    ...readPassword(user),
  });
}

async function loadFile(path: string): Promise<KubeConfig> {
  const parsed = await tryParse(path, await readText(path));
  const { cluster, context, user } = parsed;
  if (user?.hasAuthProvider === true) {
    throw invalidConfig(path, "auth-provider is not supported; use exec, a token or a certificate");
  }
  const plugin = user?.exec === undefined ? undefined : new ExecPlugin(path, user.exec);
  return {
    server: cluster.server,
    skipTlsVerify: cluster.skipTlsVerify,
    ...(context.namespace !== undefined && { namespace: context.namespace }),
    ...(cluster.tlsServerName !== undefined && { tlsServerName: cluster.tlsServerName }),
    ...(cluster.proxyUrl !== undefined && { proxyUrl: cluster.proxyUrl }),
    ...(user?.impersonateUser !== undefined && { impersonate: user.impersonateUser }),
    readCredentials: async (isRefused = false) =>
      readCredentials(path, parsed, (await plugin?.read(isRefused)) ?? {}),
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

/** Reads the kubeconfig, or the pod's service account if `kubeconfig` is unset. @throws AppError with KUBE_CONFIG_INVALID */
export async function loadKubeConfig({
  kubeconfig,
  accountDirectory = SERVICE_ACCOUNT_DIRECTORY,
}: KubeConfigSource): Promise<KubeConfig> {
  return kubeconfig === undefined ? loadInCluster(accountDirectory) : loadFile(kubeconfig);
}
