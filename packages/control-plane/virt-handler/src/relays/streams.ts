// SPDX-License-Identifier: Apache-2.0
// Copies bytes between two connections until both have ended, one fails or neither makes progress.
import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import { GREETING_MAX } from "./protocol.ts";

type OnEnd = (reason: string) => void;

interface Pair {
  readonly local: Socket;
  readonly remote: TLSSocket;
}

/** Copies in both directions; each may end alone. `silenceMs` is the time without traffic after which both are closed; 0 for never. */
export function joinSockets({ local, remote }: Pair, silenceMs: number, onEnd: OnEnd): void {
  let reason = "both sides have ended";
  let hasEnded = false;
  const end = (why: string): void => {
    reason = hasEnded ? reason : why;
    hasEnded = true;
    local.destroy();
    remote.destroy();
  };
  remote.setTimeout(silenceMs, () => {
    end(`no data was transferred for ${String(silenceMs)} ms`);
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
      // The last bytes may still be in transit to the other side.
      if (!to.writableEnded) to.end();
      openSides -= 1;
      if (openSides === 0) onEnd(reason);
    });
  }
}

/** Reads a line; undefined when it is too long or takes longer than `withinMs`. Leaves later data unread. */
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
