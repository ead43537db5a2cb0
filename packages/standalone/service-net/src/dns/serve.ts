// SPDX-License-Identifier: Apache-2.0
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { createServer, type Socket } from "node:net";
import { AppError, messageOf, type Logger } from "@patchbay/base";

import type { DnsClient } from "./answer.ts";

const LENGTH_PREFIX_BYTES = 2;
const CONNECTIONS_MAX = 128;
/** Time after which an idle connection is closed. Source: RFC 7766 section 6.2.3, "a few seconds". */
const IDLE_TIMEOUT_MS = 10_000;

export interface NameServerDeps {
  readonly address: string;
  /** Port of the server; 0 selects a free port. */
  readonly port: number;
  readonly answer: (bytes: Buffer, dnsClient: DnsClient) => Promise<Buffer | undefined>;
  readonly log: Logger;
}

/** Answers all complete queries. A length prefix precedes each query. Returns the remaining bytes of an incomplete query. */
async function answerAll(
  socket: Socket,
  receivedBytes: Buffer,
  deps: NameServerDeps,
): Promise<Buffer> {
  let remainingBytes = receivedBytes;
  while (remainingBytes.length >= LENGTH_PREFIX_BYTES) {
    const end = remainingBytes.readUInt16BE(0) + LENGTH_PREFIX_BYTES;
    if (remainingBytes.length < end) break;
    const dnsClient = { address: socket.remoteAddress ?? "", isTcp: true };
    const answer = await deps.answer(remainingBytes.subarray(LENGTH_PREFIX_BYTES, end), dnsClient);
    remainingBytes = remainingBytes.subarray(end);
    if (answer === undefined) {
      socket.destroy();
      return Buffer.alloc(0);
    }
    const length = Buffer.alloc(LENGTH_PREFIX_BYTES);
    length.writeUInt16BE(answer.length, 0);
    socket.write(Buffer.concat([length, answer]));
  }
  return remainingBytes;
}

function serveConnection(socket: Socket, deps: NameServerDeps): void {
  socket.setTimeout(IDLE_TIMEOUT_MS, () => {
    socket.destroy();
  });
  socket.on("error", () => {
    socket.destroy();
  });
  void (async () => {
    let receivedBytes = Buffer.alloc(0);
    for await (const piece of socket) {
      receivedBytes = Buffer.concat([receivedBytes, piece as Buffer]);
      receivedBytes = Buffer.from(await answerAll(socket, receivedBytes, deps));
    }
  })().catch(() => {
    socket.destroy();
  });
}

/** Starts to serve DNS over UDP and TCP, and returns the port. @throws AppError with SERVICE_NAMES_FAILED when it cannot listen */
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
    const boundAddress = tcp.address();
    const port =
      typeof boundAddress === "object" && boundAddress !== null ? boundAddress.port : deps.port;
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
