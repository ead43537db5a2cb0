// SPDX-License-Identifier: Apache-2.0
import type { Session } from "./session.ts";

const PROTOCOL = "stream.panel.patchbay.io";

export interface StreamTarget {
  readonly namespace: string;
  readonly name: string;
  readonly streamKind: "console" | "vnc";
}

/** Opens a stream. Sends the session's key as a subprotocol, because pages cannot set headers of a WebSocket request. */
export function openStream(
  session: Session,
  { namespace, name, streamKind }: StreamTarget,
): WebSocket {
  const url = `ws://${location.host}/streams/${namespace}/${name}/${streamKind}`;
  const socket = new WebSocket(url, [PROTOCOL, `key.${session.key}`]);
  socket.binaryType = "arraybuffer";
  return socket;
}

export interface OpenedStream {
  close(): void;
}

export type StatusListener = (text: string) => void;
