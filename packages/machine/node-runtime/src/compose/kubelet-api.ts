// SPDX-License-Identifier: Apache-2.0
// The node's own server, when there are certificates for it.
import { serveKubeletApi, type KubeletApiDeps } from "../kubelet-api/serve.ts";
import type { Flags } from "../config.ts";

/** The port at which is served; 0: at none. */
export async function listenToApiServer(
  deps: KubeletApiDeps & { readonly signal: AbortSignal; readonly hostIp: string },
  flags: Flags,
): Promise<number> {
  const { tlsCertFile: certFile, tlsPrivateKeyFile: keyFile, clientCaFile } = flags;
  if (certFile === undefined || keyFile === undefined || clientCaFile === undefined) return 0;
  const { listenAddress = deps.hostIp, clientName: clientNames } = flags;
  const settings = { listenAddress, port: Number(flags.port), certFile, keyFile };
  const server = await serveKubeletApi(
    deps,
    { ...settings, clientCaFile, clientNames },
    deps.signal,
  );
  return server.port;
}
