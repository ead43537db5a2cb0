// SPDX-License-Identifier: Apache-2.0
// Upgraded connections (WebSocket, SPDY): asked for like any other request, then bytes both ways.
import { type IncomingMessage, type RequestListener, type Server, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { Socket } from "node:net";
import { type Forwarding, openRequest, forwardAnswer } from "./forward-request.ts";

/** After how long a silence TCP asks whether a peer still exists, milliseconds: a stream may be silent for days. */
const PROBE_AFTER_MS = 30_000;

/** What is left of a request whose connection is to become something else. */
interface Upgrade {
  readonly socket: Socket;
  /** What the client sent behind the request. */
  readonly head: Buffer;
}

const UPGRADES = new WeakMap<IncomingMessage, Upgrade>();

/** Whether the request wants its connection to become something else. */
export function isUpgrade(request: IncomingMessage): boolean {
  return UPGRADES.has(request);
}

/** Hands upgrades to `listener` as requests: they are authenticated, authorized and refused like all others. */
export function serveUpgrades(server: Server, listener: RequestListener): void {
  server.on("upgrade", (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    if (!(socket instanceof Socket)) {
      socket.destroy();
      return;
    }
    socket.on("error", () => socket.destroy());
    UPGRADES.set(request, { socket, head });
    const response = new ServerResponse(request);
    response.shouldKeepAlive = false;
    response.assignSocket(socket);
    response.on("finish", () => {
      socket.destroySoon();
    });
    listener(request, response);
  });
}

function headText(answer: IncomingMessage): string {
  const lines = [`HTTP/1.1 101 ${answer.statusMessage ?? "Switching Protocols"}`];
  for (let index = 0; index < answer.rawHeaders.length; index += 2) {
    lines.push(`${answer.rawHeaders[index] ?? ""}: ${answer.rawHeaders[index + 1] ?? ""}`);
  }
  return `${lines.join("\r\n")}\r\n\r\n`;
}

/** Bytes both ways until one side ends; what is on its way then still arrives. */
function join(left: Socket, right: Socket, stop: AbortSignal): void {
  const destroy = (): void => {
    left.destroy();
    right.destroy();
  };
  stop.addEventListener("abort", destroy);
  for (const [from, to] of [
    [left, right],
    [right, left],
  ] as const) {
    from.setTimeout(0);
    from.setNoDelay(true);
    from.setKeepAlive(true, PROBE_AFTER_MS);
    from.pipe(to);
    from.on("error", destroy);
    from.on("close", () => {
      stop.removeEventListener("abort", destroy);
      to.destroySoon();
    });
  }
}

/** Passes an upgrade on; where the server refuses it, its answer. Throws an Error with a text for people while nothing was answered. */
export async function tunnel(forwarding: Forwarding, stop: AbortSignal): Promise<void> {
  const { request, response } = forwarding;
  const upgrade = UPGRADES.get(request);
  if (upgrade === undefined) {
    throw new Error("the request is no upgrade");
  }
  const { socket, head } = upgrade;
  const protocol = { connection: "Upgrade", upgrade: request.headers.upgrade };
  const outgoing = await openRequest(forwarding, protocol);
  socket.once("close", () => outgoing.destroy());
  const { promise, resolve, reject } = Promise.withResolvers<undefined>();
  outgoing.on("error", reject);
  outgoing.on("response", (answer) => {
    forwardAnswer(answer, response);
    response.once("close", () => {
      resolve(undefined);
    });
  });
  outgoing.on("upgrade", (answer, remote, remoteHead) => {
    response.detachSocket(socket);
    socket.write(headText(answer));
    socket.write(remoteHead);
    remote.write(head);
    join(socket, remote, stop);
    resolve(undefined);
  });
  outgoing.end();
  await promise;
}
