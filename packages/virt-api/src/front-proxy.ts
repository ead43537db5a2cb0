// SPDX-License-Identifier: Apache-2.0
// Who asks? Only the API server may say so. Source: Kubernetes "Configure the Aggregation Layer".
import type { IncomingMessage } from "node:http";
import { TLSSocket } from "node:tls";
import type { User } from "./call.ts";

const USER_HEADER = "x-remote-user";
const GROUP_HEADER = "x-remote-group";

/**
 * The user that the API server's proxy names, or undefined: the name counts only over a connection whose client
 * certificate was signed by the authority of --requestheader-client-ca-file.
 */
export function findRemoteUser(
  request: Pick<IncomingMessage, "socket" | "headersDistinct">,
): User | undefined {
  const { socket, headersDistinct } = request;
  const [name = ""] = headersDistinct[USER_HEADER] ?? [];
  if (!(socket instanceof TLSSocket) || !socket.authorized) return undefined;
  return name === "" ? undefined : { name, groups: headersDistinct[GROUP_HEADER] ?? [] };
}
