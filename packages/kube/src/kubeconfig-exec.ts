// SPDX-License-Identifier: Apache-2.0
// Which credentials does a kubeconfig's exec plugin give?
import { AppError, messageOf } from "@patchbay/core";
import type { User } from "@kubernetes/client-node/dist/config_types.js";

/** How long a plugin may take, milliseconds; a person may have to answer it. */
const PLUGIN_TIMEOUT_MS = 60_000;

/** What a plugin gives. Source: Kubernetes client.authentication.k8s.io/v1 ExecCredentialStatus. */
export interface PluginCredentials {
  readonly cert?: string;
  readonly key?: string;
  readonly token?: string;
}

/** Where the library puts what a plugin gave. */
interface Given {
  cert?: string;
  key?: string;
  headers?: Record<string, string>;
}

async function runPlugin(user: User): Promise<PluginCredentials> {
  const { ExecAuth } = await import("@kubernetes/client-node/dist/exec_auth.js");
  const given: Given = {};
  await new ExecAuth().applyAuthentication(user, given);
  const token = given.headers?.["Authorization"]?.replace(/^Bearer /, "");
  return {
    ...(given.cert !== undefined && { cert: given.cert }),
    ...(given.key !== undefined && { key: given.key }),
    ...(token !== undefined && { token }),
  };
}

/**
 * Runs the exec plugin of a kubeconfig's user.
 * @throws AppError with KUBE_CONFIG_INVALID when it fails or takes more than a minute.
 */
export async function runExecPlugin(path: string, user: User): Promise<PluginCredentials> {
  const late = Promise.withResolvers<never>();
  const deadline = AbortSignal.timeout(PLUGIN_TIMEOUT_MS);
  deadline.onabort = () => {
    late.reject(new Error(`the exec plugin took more than ${String(PLUGIN_TIMEOUT_MS)} ms`));
  };
  try {
    return await Promise.race([runPlugin(user), late.promise]);
  } catch (error) {
    throw new AppError(
      "KUBE_CONFIG_INVALID",
      { path, reason: `exec plugin: ${messageOf(error)}` },
      { cause: error },
    );
  } finally {
    deadline.onabort = null;
  }
}
