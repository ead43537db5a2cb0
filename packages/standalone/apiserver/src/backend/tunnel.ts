// SPDX-License-Identifier: Apache-2.0
import { type IncomingMessage, type RequestListener, type Server, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { Socket } from "node:net";
import { type Forwarding, openRequest, forwardResponse } from "./forward-request.ts";

/** Idle time after which keep-alive probes start. The probes detect that the peer of an idle stream has disappeared. */
const KEEPALIVE_DELAY_MS = 30_000;

interface Upgrade {
  readonly socket: Socket;
  readonly head: Buffer;
}

const UPGRADES = new WeakMap<IncomingMessage, Upgrade>();

export function isUpgrade(request: IncomingMessage): boolean {
  return UPGRADES.has(request);
}

/** Passes upgrade requests to `listener`, so that they are authenticated and authorized like all other requests. */
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

function printHead(backendResponse: IncomingMessage): string {
  const lines = [`HTTP/1.1 101 ${backendResponse.statusMessage ?? "Switching Protocols"}`];
  for (let index = 0; index < backendResponse.rawHeaders.length; index += 2) {
    lines.push(
      `${backendResponse.rawHeaders[index] ?? ""}: ${backendResponse.rawHeaders[index + 1] ?? ""}`,
    );
  }
  return `${lines.join("\r\n")}\r\n\r\n`;
}

/** Copies bytes in both directions. When one side closes, flushes pending bytes, then closes the other side. */
function pipeBothWays(left: Socket, right: Socket, stop: AbortSignal): void {
  const destroy = (): void => {
    left.destroy();
    right.destroy();
  };
  stop.addEventListener("abort", destroy);
  for (const [source, target] of [
    [left, right],
    [right, left],
  ] as const) {
    source.setTimeout(0);
    source.setNoDelay(true);
    source.setKeepAlive(true, KEEPALIVE_DELAY_MS);
    source.pipe(target);
    source.on("error", destroy);
    source.on("close", () => {
      stop.removeEventListener("abort", destroy);
      target.destroySoon();
    });
  }
}

/** Tunnels an upgrade. If the backend refuses it, forwards the backend's response. Throws an Error if the backend does not respond. */
export async function tunnel(forwarding: Forwarding, stop: AbortSignal): Promise<void> {
  const { request, response } = forwarding;
  const upgrade = UPGRADES.get(request);
  if (upgrade === undefined) {
    throw new Error("the request does not ask for an upgrade");
  }
  const { socket, head } = upgrade;
  const upgradeHeaders = { connection: "Upgrade", upgrade: request.headers.upgrade };
  const backendRequest = await openRequest(forwarding, upgradeHeaders);
  socket.once("close", () => backendRequest.destroy());
  const { promise, resolve, reject } = Promise.withResolvers<undefined>();
  backendRequest.on("error", reject);
  backendRequest.on("response", (backendResponse) => {
    forwardResponse(backendResponse, response);
    response.once("close", () => {
      resolve(undefined);
    });
  });
  backendRequest.on("upgrade", (backendResponse, backendSocket, backendHead) => {
    response.detachSocket(socket);
    socket.write(printHead(backendResponse));
    socket.write(backendHead);
    backendSocket.write(head);
    pipeBothWays(socket, backendSocket, stop);
    resolve(undefined);
  });
  backendRequest.end();
  await promise;
}
