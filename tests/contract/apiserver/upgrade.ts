// SPDX-License-Identifier: Apache-2.0
// A client that requests connection upgrades.
import type { IncomingMessage } from "node:http";
import { request as httpsRequest } from "node:https";
import type { Duplex } from "node:stream";
import type { Harness } from "./harness.ts";

/** A WebSocket handshake key. Source: RFC 6455 1.3, its example. */
export const KEY = "dGhlIHNhbXBsZSBub25jZQ==";

export interface Upgraded {
  readonly answer: IncomingMessage;
  /** Unset if the upgrade was rejected. */
  readonly socket?: Duplex;
}

/** Requests an upgrade with the token of `root`, unless `headers` differ, from `localAddress` of the loopback network. */
export async function upgrade(
  api: Harness,
  path: string,
  { method = "GET", ...headers }: Readonly<Record<string, string>> = {},
  localAddress = "127.0.0.1",
): Promise<Upgraded> {
  const { promise, resolve, reject } = Promise.withResolvers<Upgraded>();
  const outgoing = httpsRequest(`${api.server.url}${path}`, {
    ca: api.authority.certPem,
    agent: false,
    localAddress,
    method,
    headers: {
      authorization: "Bearer admin-token",
      connection: "Upgrade",
      upgrade: "websocket",
      "sec-websocket-key": KEY,
      "sec-websocket-version": "13",
      ...headers,
    },
  });
  outgoing.on("error", reject);
  outgoing.on("response", (answer) => {
    resolve({ answer });
  });
  outgoing.on("upgrade", (answer, socket, head) => {
    socket.unshift(head);
    resolve({ answer, socket });
  });
  outgoing.end();
  return promise;
}
