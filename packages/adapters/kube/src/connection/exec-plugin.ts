// SPDX-License-Identifier: Apache-2.0
// Exec plugins of a kubeconfig, which issue credentials. Source: client-go plugin/pkg/client/auth/exec
import { execFile } from "node:child_process";
import { isJsonObject, parseJson, type JsonObject } from "@patchbay/api/json";
import { AppError, messageOf } from "@patchbay/base";
import { readEnvironment } from "./config.ts";

/** Deadline of the plugin, in milliseconds, long enough to prompt a person. */
const PLUGIN_TIMEOUT_MS = 60_000;

/** Credentials as PEM and a token. Source: Kubernetes client.authentication.k8s.io/v1 ExecCredentialStatus */
export interface PluginCredentials {
  readonly cert: string | undefined;
  readonly key: string | undefined;
  readonly token: string | undefined;
}

interface CachedCredentials extends PluginCredentials {
  /** Time of expiry, RFC 3339; undefined if the credentials do not expire. */
  readonly expiresAt: string | undefined;
}

interface PluginCommand {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

function readText(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}

function parseCommand(exec: JsonObject): PluginCommand {
  const command = readText(exec["command"]);
  if (command === undefined) throw new Error("it names no command");
  const { args, env } = exec;
  const variables = Array.isArray(env) ? env.filter(isJsonObject) : [];
  return {
    command,
    args: Array.isArray(args) ? args.map(String) : [],
    env: Object.fromEntries(variables.map(({ name, value }) => [String(name), String(value)])),
  };
}

/**
 * Returns the plugin's standard output. Unlike programs of a ProcessRunner, the plugin stays in this process group,
 * because only the terminal's foreground group may prompt a person.
 */
function runPlugin({ command, args, env }: PluginCommand): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const options = {
    env: { ...readEnvironment(), ...env },
    timeout: PLUGIN_TIMEOUT_MS,
    killSignal: "SIGKILL",
  } as const;
  execFile(command, args, options, (error, stdout, stderr) => {
    if (error === null) resolve(stdout);
    else if (error.signal === "SIGKILL") {
      reject(new Error(`it was killed, or took more than ${String(PLUGIN_TIMEOUT_MS)} ms`));
    } else reject(typeof error.code === "number" ? new Error(stderr) : error);
  });
  return promise;
}

function parseCredentials(output: string): CachedCredentials {
  const credential = parseJson(output);
  const status = isJsonObject(credential) ? credential["status"] : undefined;
  if (!isJsonObject(status)) throw new Error("it printed no ExecCredential with a status");
  return {
    cert: readText(status["clientCertificateData"]),
    key: readText(status["clientKeyData"]),
    token: readText(status["token"]),
    expiresAt: readText(status["expirationTimestamp"]),
  };
}

function isCurrent({ expiresAt }: CachedCredentials): boolean {
  // oxlint-disable-next-line no-restricted-globals -- the plugin states an absolute time, and no caller has a clock
  return expiresAt === undefined || Date.parse(expiresAt) > Date.now();
}

/** The exec plugin of one user. Credentials are reused until they expire. */
export class ExecPlugin {
  readonly #path: string;
  readonly #exec: JsonObject;
  #credentials: CachedCredentials | undefined;

  /** `path` is the path of the kubeconfig, for errors. */
  constructor(path: string, exec: JsonObject) {
    this.#path = path;
    this.#exec = exec;
  }

  /** Runs the plugin if credentials are missing, expired or rejected. @throws AppError with KUBE_CONFIG_INVALID */
  async read(isRefused: boolean): Promise<PluginCredentials> {
    const cached = this.#credentials;
    if (!isRefused && cached !== undefined && isCurrent(cached)) return cached;
    try {
      this.#credentials = parseCredentials(await runPlugin(parseCommand(this.#exec)));
      return this.#credentials;
    } catch (error) {
      throw new AppError(
        "KUBE_CONFIG_INVALID",
        { path: this.#path, reason: `exec plugin: ${messageOf(error)}` },
        { cause: error },
      );
    }
  }
}
