// SPDX-License-Identifier: Apache-2.0
// Bytes both ways between two connections, until both have ended, one fails, or nothing moves any more.
import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import { GREETING_MAX } from "./protocol.ts";

/** How a pair of connections ended, for people. */
type OnEnd = (reason: string) => void;

/** The launcher's end and the other node's. */
interface Pair {
  readonly local: Socket;
  readonly remote: TLSSocket;
}

/**
 * Joins them. What one side has ended, the other is told, and may go on itself.
 * @param silenceMs - so long may nothing come or go; 0: for ever
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
      // What it said last may still be on its way to the other side.
      if (!to.writableEnded) to.end();
      left -= 1;
      if (left === 0) onEnd(reason);
    });
  }
}

/**
 * The first line of a connection; undefined when it is too long, or does not come. What follows stays to be read.
 * @param withinMs - how long it may take
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
