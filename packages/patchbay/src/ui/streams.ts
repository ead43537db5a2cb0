// SPDX-License-Identifier: Apache-2.0
// A guest's console or screen in the browser: its WebSocket and the API server's become one.
import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { messageOf, STREAM_PROTOCOL } from "@patchbay/core";
import type { KubeClient } from "@patchbay/kube";
import { createWebSocketStream, WebSocketServer, type WebSocket } from "ws";
import type { PassedStream } from "./calls.ts";

/** What the page and the panel speak; a second protocol carries the key, since a page cannot set headers here. */
export const PANEL_PROTOCOL = "stream.panel.patchbay.io";
/** What stands before the key. */
const KEY_PREFIX = "key.";
/** The longest frame that a browser sends: keys, a paste; bytes. */
const FRAME_MAX = 1024 * 1024;
/** Source: RFC 6455, 7.4.1; a reason has 123 bytes at most (5.5) */
const SERVER_FAILED = 1011;
const REASON_MAX = 120;

/** The key that the browser offers among its protocols. */
export function offeredKey(header: string | undefined): string | undefined {
  const offered = header?.split(",").map((word) => word.trim()) ?? [];
  return offered.find((word) => word.startsWith(KEY_PREFIX))?.slice(KEY_PREFIX.length);
}

/** A request that asks to become a WebSocket. */
export interface Upgrade {
  readonly request: IncomingMessage;
  readonly socket: Duplex;
  readonly head: Buffer;
}

function pathOf({ namespace, name, what }: PassedStream): string {
  return `/apis/subresources.kubevirt.io/v1/namespaces/${namespace}/virtualmachineinstances/${name}/${what}`;
}

function closeWith(socket: WebSocket, reason: string): void {
  socket.close(SERVER_FAILED, Buffer.from(reason).subarray(0, REASON_MAX).toString());
}

function join(socket: WebSocket, guest: Duplex): void {
  const page = createWebSocketStream(socket);
  for (const side of [page, guest]) side.on("error", () => side.destroy());
  page.pipe(guest).pipe(page);
  page.on("close", () => guest.destroy());
  guest.on("close", () => {
    socket.close();
  });
}

/** Joins browsers and guests. */
export class GuestStreams {
  readonly #client: Pick<KubeClient, "openStream">;
  readonly #server = new WebSocketServer({
    noServer: true,
    maxPayload: FRAME_MAX,
    perMessageDeflate: false,
    handleProtocols: (offered) => (offered.has(PANEL_PROTOCOL) ? PANEL_PROTOCOL : false),
  });

  constructor(client: Pick<KubeClient, "openStream">) {
    this.#client = client;
  }

  /** Whoever has the guest's console or screen loses it: the page has asked. */
  open(stream: PassedStream, { request, socket, head }: Upgrade): void {
    this.#server.handleUpgrade(request, socket, head, (page) => {
      page.pause();
      this.#client.openStream({ path: pathOf(stream), protocol: STREAM_PROTOCOL }).then(
        (guest) => {
          page.resume();
          join(page, guest);
        },
        (error: unknown) => {
          page.resume();
          closeWith(page, messageOf(error));
        },
      );
    });
  }

  /** Ends all of them. */
  close(): void {
    for (const page of this.#server.clients) page.terminate();
    this.#server.close();
  }
}
