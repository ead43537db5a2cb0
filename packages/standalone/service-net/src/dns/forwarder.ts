// SPDX-License-Identifier: Apache-2.0
// Forwarding of DNS queries to the host's resolvers. A new source port and id for each query prevents spoofed answers.
import { createSocket } from "node:dgram";
import { createConnection, isIP } from "node:net";
import { type Clock, SHARE_KEYS, SharePool } from "@patchbay/base";
import type { Files } from "@patchbay/core/interfaces";
import type { ForwardQuery } from "./answer.ts";
import { isAnswerTo, MessageSplitter, readQuery, withId } from "./packets.ts";

const RESOLVER_CONFIG = "/etc/resolv.conf";
const PORT = 53;
/** Time limit of one resolver. Two resolvers fit into the clients' timeout of 5 s. Source: resolv.conf(5). */
const TIMEOUT_MS = 2000;
/** Maximum number of resolvers. Source: resolv.conf(5), MAXNS. */
const SERVERS_MAX = 3;
const QUERY_LIMITS = { max: 512, share: 64 };
const LENGTH_PREFIX_BYTES = 2;

export function parseServers(text: string, ownAddress: string): readonly string[] {
  return text
    .split("\n")
    .map((line) => line.trim().split(/\s+/))
    .flatMap(([key, value = ""]) => (key === "nameserver" && isIP(value) !== 0 ? [value] : []))
    .filter((server) => server !== ownAddress)
    .slice(0, SERVERS_MAX);
}

interface ServerQuery {
  readonly server: string;
  readonly port: number;
  readonly bytes: Buffer;
  readonly isAnswer: (bytes: Buffer) => boolean;
  readonly signal: AbortSignal;
}

function queryByUdp({
  server,
  port,
  bytes,
  isAnswer,
  signal,
}: ServerQuery): Promise<Buffer | undefined> {
  const { promise, resolve } = Promise.withResolvers<Buffer | undefined>();
  const socket = createSocket(isIP(server) === 6 ? "udp6" : "udp4");
  const finish = (answer?: Buffer): void => {
    resolve(answer);
  };
  signal.addEventListener("abort", () => {
    finish();
  });
  socket.on("error", () => {
    finish();
  });
  socket.on("message", (message) => {
    if (isAnswer(message)) finish(message);
  });
  // Connects the socket, so that the kernel drops packets from other addresses.
  socket.connect(port, server, () => {
    socket.send(bytes);
  });
  return promise.finally(() => {
    socket.close();
  });
}

function queryByTcp({
  server,
  port,
  bytes,
  isAnswer,
  signal,
}: ServerQuery): Promise<Buffer | undefined> {
  const { promise, resolve } = Promise.withResolvers<Buffer | undefined>();
  const socket = createConnection({ host: server, port });
  const received = new MessageSplitter();
  const finish = (answer?: Buffer): void => {
    resolve(answer);
    socket.destroy();
  };
  signal.addEventListener("abort", () => {
    finish();
  });
  socket.on("error", () => {
    finish();
  });
  socket.on("close", () => {
    finish();
  });
  socket.on("data", (piece) => {
    received.push(piece);
    const answer = received.next();
    if (answer !== undefined) finish(isAnswer(answer) ? answer : undefined);
  });
  const length = Buffer.alloc(LENGTH_PREFIX_BYTES);
  length.writeUInt16BE(bytes.length, 0);
  socket.write(Buffer.concat([length, bytes]));
  return promise;
}

interface ForwarderDeps {
  readonly files: Pick<Files, "readText">;
  readonly clock: Clock;
  readonly randomId: () => number;
  readonly ownAddress: string;
  readonly port?: number;
}

async function queryInOrder(
  servers: readonly string[],
  queryServer: (server: string, signal: AbortSignal) => Promise<Buffer | undefined>,
  clock: Clock,
): Promise<Buffer | undefined> {
  for (const server of servers) {
    const timeout = new AbortController();
    const timerStop = new AbortController();
    clock.sleep(TIMEOUT_MS, timerStop.signal).then(
      () => {
        timeout.abort();
      },
      () => undefined,
    );
    const answer = await queryServer(server, timeout.signal);
    timerStop.abort();
    if (answer !== undefined) return answer;
  }
  return undefined;
}

/** Creates a forwarder that reads resolv.conf for each query, because the file changes with the host's network. */
export function createForwarder({
  files,
  clock,
  randomId,
  ownAddress,
  port = PORT,
}: ForwarderDeps): ForwardQuery {
  const openQueries = new SharePool(QUERY_LIMITS);
  return async (question, { isTcp, client }) => {
    const query = readQuery(question);
    if (query === undefined) return undefined;
    const release = openQueries.tryAcquire(SHARE_KEYS.peer(client));
    if (release === undefined) return undefined;
    try {
      const servers = parseServers((await files.readText(RESOLVER_CONFIG)) ?? "", ownAddress);
      return await queryInOrder(
        servers,
        (server, signal) => {
          const id = randomId();
          const isAnswer = (bytes: Buffer): boolean => isAnswerTo(bytes, query, id);
          const serverQuery = { server, port, bytes: withId(question, id), isAnswer, signal };
          return isTcp ? queryByTcp(serverQuery) : queryByUdp(serverQuery);
        },
        clock,
      );
    } finally {
      release();
    }
  };
}
