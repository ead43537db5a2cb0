// SPDX-License-Identifier: Apache-2.0
// Runs a kubeconfig's exec plugin, which issues credentials. Uses the Kubernetes client library, which takes 0.7 s and
// 42 MB to load. Therefore, this module is loaded only if the kubeconfig's user has an exec plugin.
import type { OutgoingHttpHeaders } from "node:http";
import type { RequestOptions } from "node:https";
import type { KubeConfig } from "@kubernetes/client-node";
import type { JsonObject } from "@patchbay/api/json";
import { AppError, messageOf } from "@patchbay/base";

/** Time limit of a plugin, in milliseconds. It is long, because a plugin may wait for the user's input. */
const PLUGIN_TIMEOUT_MS = 60_000;

/** Source: Kubernetes client.authentication.k8s.io/v1 ExecCredentialStatus */
export interface PluginCredentials {
  readonly cert: string | undefined;
  readonly key: string | undefined;
  readonly token: string | undefined;
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

function readText(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

/** Exec plugin of one user. The client library caches the credentials until they expire. */
export class ExecPlugin {
  readonly #path: string;
  readonly #exec: JsonObject;
  #config: KubeConfig | undefined;

  /** `path` is the path of the kubeconfig, for error messages. */
  constructor(path: string, exec: JsonObject) {
    this.#path = path;
    this.#exec = exec;
  }

  /** Returns credentials. Runs the plugin if the cached credentials expired or were rejected. @throws AppError with KUBE_CONFIG_INVALID */
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
    if (isRefused || this.#config === undefined) this.#config = await this.#load();
    const options: RequestOptions & { readonly headers: OutgoingHttpHeaders } = { headers: {} };
    await this.#config.applyToHTTPSOptions(options);
    const authorization = readText(options.headers["Authorization"]);
    return {
      cert: readText(options.cert),
      key: readText(options.key),
      token: authorization?.replace(/^Bearer /, ""),
    };
  }
  async #load(): Promise<KubeConfig> {
    const library = await import("@kubernetes/client-node");
    const config = new library.KubeConfig();
    const name = "exec";
    config.loadFromOptions({
      clusters: [{ name, server: "https://localhost", skipTLSVerify: false }],
      users: [{ name, exec: this.#exec }],
      contexts: [{ name, cluster: name, user: name }],
      currentContext: name,
    });
    return config;
  }
}
