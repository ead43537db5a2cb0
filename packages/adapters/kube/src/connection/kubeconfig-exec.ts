// SPDX-License-Identifier: Apache-2.0
// Which credentials does a kubeconfig's exec plugin give?
import { AppError, messageOf } from "@patchbay/core";
import type { ExecAuth } from "@kubernetes/client-node/dist/exec_auth.js";
import type { User } from "@kubernetes/client-node/dist/config_types.js";

/** How long a plugin may take, milliseconds; a person may have to answer it. */
const PLUGIN_TIMEOUT_MS = 60_000;

/** What a plugin gives. Source: Kubernetes client.authentication.k8s.io/v1 ExecCredentialStatus. */
export interface PluginCredentials {
  readonly cert: string | undefined;
  readonly key: string | undefined;
  readonly token: string | undefined;
}

/** Where the library puts what a plugin gave. */
interface Given {
  cert?: string;
  key?: string;
  headers?: Record<string, string>;
}

function late(): { readonly promise: Promise<never>; readonly end: () => void } {
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

/** The exec plugin of one user; what it gave is used until it expires. */
export class ExecPlugin {
  readonly #path: string;
  readonly #user: User;
  #auth: ExecAuth | undefined;

  /** `path` is the kubeconfig's, for errors. */
  constructor(path: string, user: User) {
    this.#path = path;
    this.#user = user;
  }

  /**
   * The credentials; the plugin runs when there are none yet, they have expired, or the server refused them.
   * @throws AppError with KUBE_CONFIG_INVALID when it fails or takes more than a minute.
   */
  async read(isRefused: boolean): Promise<PluginCredentials> {
    const deadline = late();
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
    // The library keeps what a plugin gave within the instance.
    if (isRefused || this.#auth === undefined) this.#auth = new library.ExecAuth();
    const given: Given = {};
    await this.#auth.applyAuthentication(this.#user, given);
    const { cert, key, headers } = given;
    return { cert, key, token: headers?.["Authorization"]?.replace(/^Bearer /, "") };
  }
}
