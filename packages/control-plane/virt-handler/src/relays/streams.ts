// SPDX-License-Identifier: Apache-2.0
// Copies bytes between two connections until both have ended, one has failed, or neither has made progress for too long.
import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import { GREETING_MAX } from "./protocol.ts";

type OnEnd = (reason: string) => void;

interface Pair {
  readonly local: Socket;
  readonly remote: TLSSocket;
}

/** Copies bytes in both directions. Closes both connections after `idleTimeoutMs` milliseconds without traffic; 0 disables the limit. */
export function joinSockets({ local, remote }: Pair, idleTimeoutMs: number, onEnd: OnEnd): void {
  let reason = "both sides have ended";
  let hasEnded = false;
  const end = (endReason: string): void => {
    reason = hasEnded ? reason : endReason;
    hasEnded = true;
    local.destroy();
    remote.destroy();
  };
  remote.setTimeout(idleTimeoutMs, () => {
    end(`no data was transferred for ${String(idleTimeoutMs)} ms`);
  });
  let openSides = 2;
  for (const [from, to] of [
    [local, remote],
    [remote, local],
  ] as const) {
    from.pipe(to);
    from.on("error", (error: Error) => {
      end(error.message);
    });
    from.once("close", () => {
      // Ends the other side without destroying it, so that buffered bytes are delivered.
      if (!to.writableEnded) to.end();
      openSides -= 1;
      if (openSides === 0) onEnd(reason);
    });
  }
}

/** Reads a line, and leaves later data unread. Returns undefined if the line is too long, the socket closes, or `withinMs` has passed. */
export function readLine(socket: TLSSocket, withinMs: number): Promise<string | undefined> {
  const { promise, resolve } = Promise.withResolvers<string | undefined>();
  let received = Buffer.alloc(0);
  const onData = (chunk: Buffer): void => {
    received = Buffer.concat([received, chunk]);
    const end = received.indexOf("\n");
    if (end < 0 && received.length <= GREETING_MAX) return;
    socket.pause();
    stop();
    if (end < 0 || end > GREETING_MAX) {
      resolve(undefined);
      return;
    }
    if (received.length > end + 1) socket.unshift(received.subarray(end + 1));
    resolve(received.toString("utf8", 0, end));
  };
  const onClosed = (): void => {
    stop();
    resolve(undefined);
  };
  const stop = (): void => {
    socket.off("data", onData);
    socket.off("timeout", onClosed);
    socket.off("close", onClosed);
    socket.setTimeout(0);
  };
  socket.setTimeout(withinMs);
  socket.on("data", onData);
  socket.once("timeout", onClosed);
  socket.once("close", onClosed);
  return promise;
}
