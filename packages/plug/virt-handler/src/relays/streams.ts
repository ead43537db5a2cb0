// SPDX-License-Identifier: Apache-2.0
// Copies bytes between two connections until both have ended, one fails or neither makes progress.
import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import { GREETING_MAX } from "./protocol.ts";

/** Called with the reason, as text for people. */
type OnEnd = (reason: string) => void;

interface Pair {
  readonly local: Socket;
  readonly remote: TLSSocket;
}

/**
 * Copies in both directions. When one side ends, the other may still send.
 * @param silenceMs - closes both after this time without traffic, milliseconds; 0 for never
 */
export function join({ local, remote }: Pair, silenceMs: number, onEnd: OnEnd): void {
  let reason = "both sides have ended";
  let isOver = false;
  const end = (why: string): void => {
    reason = isOver ? reason : why;
    isOver = true;
    local.destroy();
    remote.destroy();
  };
  remote.setTimeout(silenceMs, () => {
    end(`nothing came or went for ${String(silenceMs)} ms`);
  });
  let left = 2;
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
      left -= 1;
      if (left === 0) onEnd(reason);
    });
  }
}

/**
 * Reads the first line of a connection; undefined when it is too long or does not arrive. Leaves the rest unread.
 * @param withinMs - time limit, milliseconds
 */
export function readLine(socket: TLSSocket, withinMs: number): Promise<string | undefined> {
  const { promise, resolve } = Promise.withResolvers<string | undefined>();
  let said = Buffer.alloc(0);
  const take = (chunk: Buffer): void => {
    said = Buffer.concat([said, chunk]);
    const end = said.indexOf("\n");
    if (end < 0 && said.length <= GREETING_MAX) return;
    socket.pause();
    stop();
    if (end < 0 || end > GREETING_MAX) {
      resolve(undefined);
      return;
    }
    if (said.length > end + 1) socket.unshift(said.subarray(end + 1));
    resolve(said.toString("utf8", 0, end));
  };
  const giveUp = (): void => {
    stop();
    resolve(undefined);
  };
  const stop = (): void => {
    socket.off("data", take);
    socket.off("timeout", giveUp);
    socket.off("close", giveUp);
    socket.setTimeout(0);
  };
  socket.setTimeout(withinMs);
  socket.on("data", take);
  socket.once("timeout", giveUp);
  socket.once("close", giveUp);
  return promise;
}
