// SPDX-License-Identifier: Apache-2.0
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { createServer, type Socket } from "node:net";
import {
  AppError,
  type Clock,
  ConnectionPool,
  messageOf,
  type Logger,
  type Rate,
  RateLimiter,
  SHARE_KEYS,
  signalClose,
} from "@patchbay/base";
import type { DnsClient } from "./answer.ts";
import { MessageSplitter, QUERY_BYTES_MAX } from "./packets.ts";

const LENGTH_PREFIX_BYTES = 2;
const CONNECTION_LIMITS = { max: 256, share: 32 };
/** Queries over TCP of an address, fewer than over UDP: clients use TCP only for long answers. */
const QUERY_RATE: Rate = { burst: 500, perSecond: 100 };
/** Time after which an idle connection is closed. Source: RFC 7766 section 6.2.3, "a few seconds". */
const IDLE_TIMEOUT_MS = 10_000;

export interface NameServerDeps {
  readonly address: string;
  /** Port of the server; 0 selects a free port. */
  readonly port: number;
  readonly answer: (bytes: Buffer, dnsClient: DnsClient) => Promise<Buffer | undefined>;
  readonly clock: Clock;
  readonly log: Logger;
}

function waitUntilDrained(socket: Socket): Promise<undefined> {
  const { promise, resolve } = Promise.withResolvers<undefined>();
  const end = (): void => {
    socket.off("drain", end).off("close", end);
    resolve(undefined);
  };
  socket.on("drain", end).on("close", end);
  return promise;
}

async function answerAll(
  socket: Socket,
  received: MessageSplitter,
  deps: NameServerDeps,
): Promise<void> {
  for (let query = received.next(); query !== undefined; query = received.next()) {
    const dnsClient = { address: socket.remoteAddress ?? "", isTcp: true };
    const answer = await deps.answer(query, dnsClient);
    if (answer === undefined) {
      socket.destroy();
      return;
    }
    const length = Buffer.alloc(LENGTH_PREFIX_BYTES);
    length.writeUInt16BE(answer.length, 0);
    if (socket.destroyed) return;
    if (!socket.write(Buffer.concat([length, answer]))) await waitUntilDrained(socket);
  }
  if (received.isBeyondLimit) socket.destroy();
}

function serveConnection(socket: Socket, deps: NameServerDeps): void {
  socket.setTimeout(IDLE_TIMEOUT_MS, () => {
    socket.destroy();
  });
  socket.on("error", () => {
    socket.destroy();
  });
  void (async () => {
    const received = new MessageSplitter(QUERY_BYTES_MAX);
    for await (const piece of socket) {
      received.push(piece as Buffer);
      await answerAll(socket, received, deps);
    }
  })().catch(() => {
    socket.destroy();
  });
}

/** Starts to serve DNS over UDP and TCP, and returns the port. @throws AppError with SERVICE_NAMES_FAILED when it cannot listen */
export async function serveNames(deps: NameServerDeps, signal: AbortSignal): Promise<number> {
  const { address, clock, log } = deps;
  const connections = new ConnectionPool(CONNECTION_LIMITS);
  const queries = new RateLimiter(QUERY_RATE, { clock, stop: signal });
  const tcp = createServer((socket) => {
    connections.add(socket);
    const closed = signalClose(socket);
    const answer: NameServerDeps["answer"] = async (bytes, dnsClient) => {
      if (!(await queries.proceed(SHARE_KEYS.peer(dnsClient.address), closed))) return undefined;
      return deps.answer(bytes, dnsClient).finally(connections.beginRequest(socket));
    };
    serveConnection(socket, { ...deps, answer });
  });
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
