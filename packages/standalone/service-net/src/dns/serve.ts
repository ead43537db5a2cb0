// SPDX-License-Identifier: Apache-2.0
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { createServer, type Socket } from "node:net";
import { AppError, messageOf, type Logger } from "@patchbay/base";

import type { DnsClient } from "./answer.ts";

const LENGTH_BYTES = 2;
const CONNECTIONS_MAX = 128;
/** Source: RFC 7766 section 6.2.3, "a few seconds". */
const IDLE_MS = 10_000;

export interface NameServerDeps {
  readonly address: string;
  /** 0 selects a free port. */
  readonly port: number;
  readonly answer: (bytes: Buffer, dnsClient: DnsClient) => Promise<Buffer | undefined>;
  readonly log: Logger;
}

/** `read` starts with a length prefix. Returns the rest. */
async function answerAll(socket: Socket, read: Buffer, deps: NameServerDeps): Promise<Buffer> {
  let rest = read;
  while (rest.length >= LENGTH_BYTES) {
    const end = rest.readUInt16BE(0) + LENGTH_BYTES;
    if (rest.length < end) break;
    const dnsClient = { address: socket.remoteAddress ?? "", isTcp: true };
    const answer = await deps.answer(rest.subarray(LENGTH_BYTES, end), dnsClient);
    rest = rest.subarray(end);
    if (answer === undefined) {
      socket.destroy();
      return Buffer.alloc(0);
    }
    const length = Buffer.alloc(LENGTH_BYTES);
    length.writeUInt16BE(answer.length, 0);
    socket.write(Buffer.concat([length, answer]));
  }
  return rest;
}

function serveConnection(socket: Socket, deps: NameServerDeps): void {
  socket.setTimeout(IDLE_MS, () => {
    socket.destroy();
  });
  socket.on("error", () => {
    socket.destroy();
  });
  void (async () => {
    let read = Buffer.alloc(0);
    for await (const piece of socket) {
      // a socket without an encoding yields buffers
      read = Buffer.concat([read, piece as Buffer]);
      read = Buffer.from(await answerAll(socket, read, deps));
    }
  })().catch(() => {
    socket.destroy();
  });
}

/**
 * Returns the port.
 * @throws AppError with SERVICE_NAMES_FAILED
 */
export async function serveNames(deps: NameServerDeps, signal: AbortSignal): Promise<number> {
  const { address, log } = deps;
  const tcp = createServer((socket) => {
    serveConnection(socket, deps);
  });
  tcp.maxConnections = CONNECTIONS_MAX;
  const udp = createSocket("udp4");
  signal.addEventListener("abort", () => {
    tcp.close();
    udp.close();
  });
  try {
    tcp.listen(deps.port, address);
    await once(tcp, "listening");
    const listening = tcp.address();
    const port = typeof listening === "object" && listening !== null ? listening.port : deps.port;
    udp.bind(port, address);
    await once(udp, "listening");
    udp.on("error", (error) => {
      log.warn("dns socket failed", { reason: messageOf(error) });
    });
    udp.on("message", (bytes, { address: client, port: clientPort }) => {
      deps
        .answer(bytes, { address: client, isTcp: false })
        .then((answer) => {
          if (answer !== undefined && !signal.aborted) udp.send(answer, clientPort, client);
        })
        .catch((error: unknown) => {
          log.error("dns query failed", { reason: messageOf(error), err: error });
        });
    });
    return port;
  } catch (error) {
    const reason = messageOf(error);
    throw new AppError("SERVICE_NAMES_FAILED", { address, reason }, { cause: error });
  }
}
