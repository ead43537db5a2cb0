// SPDX-License-Identifier: Apache-2.0
// Who asks? Only the API server may say so. Source: Kubernetes "Configure the Aggregation Layer".
import type { IncomingMessage } from "node:http";
import { TLSSocket } from "node:tls";

const USER_HEADER = "x-remote-user";

/**
 * The user that the API server's proxy names, or undefined: the name counts only over a connection whose client
 * certificate was signed by the authority of --requestheader-client-ca-file.
 */
export function findRemoteUser(
  request: Pick<IncomingMessage, "socket" | "headers">,
): string | undefined {
  const { socket } = request;
  const user = request.headers[USER_HEADER];
  if (!(socket instanceof TLSSocket) || !socket.authorized) return undefined;
  return typeof user === "string" && user !== "" ? user : undefined;
}
