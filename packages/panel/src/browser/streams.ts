// SPDX-License-Identifier: Apache-2.0
// A guest's stream, as a WebSocket of the panel's server.
import type { Session } from "./session.ts";

/** As the server has them. */
const PROTOCOL = "stream.panel.patchbay.io";

/** Which stream of which VM. */
export interface StreamOf {
  readonly namespace: string;
  readonly name: string;
  readonly what: "console" | "vnc";
}

/** Opens it; the key goes as a protocol, since a page cannot set headers of a WebSocket. */
export function openStream(session: Session, { namespace, name, what }: StreamOf): WebSocket {
  const url = `ws://${location.host}/streams/${namespace}/${name}/${what}`;
  const socket = new WebSocket(url, [PROTOCOL, `key.${session.key}`]);
  socket.binaryType = "arraybuffer";
  return socket;
}

/** What was opened in an element. */
export interface Opened {
  close(): void;
}

/** Tells how it goes, in words. */
export type Tell = (words: string) => void;
