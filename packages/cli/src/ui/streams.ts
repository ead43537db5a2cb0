// SPDX-License-Identifier: Apache-2.0
// Connects WebSockets of the browser to consoles and screens of guests through the API server.
import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { messageOf } from "@patchbay/base";
import { STREAM_PROTOCOL } from "@patchbay/core/guest";
import type { KubeClient } from "@patchbay/kube";
import { createWebSocketStream, WebSocketServer, type WebSocket } from "ws";
import type { ForwardedStream } from "./calls.ts";

/** Subprotocol of the page's WebSockets. A second subprotocol contains the key, because a page cannot set headers of a WebSocket. */
export const PANEL_PROTOCOL = "stream.panel.patchbay.io";
const KEY_PREFIX = "key.";
const FRAME_MAX_BYTES = 1024 * 1024;
/** Close code for a failure of the server. Source: RFC 6455, 7.4.1. */
const SERVER_FAILED = 1011;
const REASON_MAX_BYTES = 120;

export function findOfferedKey(header: string | undefined): string | undefined {
  const protocols = header?.split(",").map((word) => word.trim()) ?? [];
  return protocols.find((word) => word.startsWith(KEY_PREFIX))?.slice(KEY_PREFIX.length);
}

export interface Upgrade {
  readonly request: IncomingMessage;
  readonly socket: Duplex;
  readonly head: Buffer;
}

function buildPath({ namespace, name, what }: ForwardedStream): string {
  return `/apis/subresources.kubevirt.io/v1/namespaces/${namespace}/virtualmachineinstances/${name}/${what}`;
}

function closeWithReason(socket: WebSocket, reason: string): void {
  socket.close(SERVER_FAILED, Buffer.from(reason).subarray(0, REASON_MAX_BYTES).toString());
}

function connect(socket: WebSocket, guest: Duplex): void {
  const page = createWebSocketStream(socket);
  for (const side of [page, guest]) side.on("error", () => side.destroy());
  page.pipe(guest).pipe(page);
  page.on("close", () => guest.destroy());
  guest.on("close", () => {
    socket.close();
  });
}

export class GuestStreams {
  readonly #client: Pick<KubeClient, "openStream">;
  readonly #server = new WebSocketServer({
    noServer: true,
    maxPayload: FRAME_MAX_BYTES,
    perMessageDeflate: false,
    handleProtocols: (offered) => (offered.has(PANEL_PROTOCOL) ? PANEL_PROTOCOL : false),
  });

  constructor(client: Pick<KubeClient, "openStream">) {
    this.#client = client;
  }

  /** Connects the browser to the guest's console or screen. virt-handler disconnects a client that already uses the console or screen. */
  open(stream: ForwardedStream, { request, socket, head }: Upgrade): void {
    this.#server.handleUpgrade(request, socket, head, (page) => {
      page.pause();
      this.#client.openStream({ path: buildPath(stream), protocol: STREAM_PROTOCOL }).then(
        (guest) => {
          page.resume();
          connect(page, guest);
        },
        (error: unknown) => {
          page.resume();
          closeWithReason(page, messageOf(error));
        },
      );
    });
  }

  close(): void {
    for (const page of this.#server.clients) page.terminate();
    this.#server.close();
  }
}
