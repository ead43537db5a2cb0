// SPDX-License-Identifier: Apache-2.0
// Forwards DNS queries to the host's resolvers. Each query has its own source port and id, against spoofed answers.
import { createSocket } from "node:dgram";
import { createConnection, isIP } from "node:net";
import type { Clock } from "@patchbay/base";
import type { Files } from "@patchbay/core/interfaces";
import type { ForwardQuery } from "./answer.ts";
import { isAnswerTo, readQuery, withId } from "./packets.ts";

const RESOLVER = "/etc/resolv.conf";
const PORT = 53;
/** Clients give up after 5 s. Source: resolv.conf(5). */
const TIMEOUT_MS = 2000;
/** Source: resolv.conf(5), MAXNS */
const SERVERS_MAX = 3;
/** Limits of open queries: in total and per client. */
const OPEN_MAX = 512;
const OPEN_PER_CLIENT_MAX = 64;
const LENGTH_BYTES = 2;

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
  // On a connected socket the kernel drops packets from other addresses.
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
  let read = Buffer.alloc(0);
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
    read = Buffer.concat([read, piece]);
    const length = read.length < LENGTH_BYTES ? Infinity : read.readUInt16BE(0) + LENGTH_BYTES;
    if (read.length < length) return;
    const answer = read.subarray(LENGTH_BYTES, length);
    finish(isAnswer(answer) ? answer : undefined);
  });
  const length = Buffer.alloc(LENGTH_BYTES);
  length.writeUInt16BE(bytes.length, 0);
  socket.write(Buffer.concat([length, bytes]));
  return promise;
}

interface ForwarderDeps {
  readonly files: Pick<Files, "readText">;
  readonly clock: Clock;
  /** Unpredictable, from 0 to 65,535. */
  readonly randomId: () => number;
  readonly ownAddress: string;
  /** Defaults to 53. */
  readonly port?: number;
}

async function queryInOrder(
  servers: readonly string[],
  queryServer: (server: string, signal: AbortSignal) => Promise<Buffer | undefined>,
  clock: Clock,
): Promise<Buffer | undefined> {
  for (const server of servers) {
    const timeout = new AbortController();
    const done = new AbortController();
    clock.sleep(TIMEOUT_MS, done.signal).then(
      () => {
        timeout.abort();
      },
      () => undefined,
    );
    const answer = await queryServer(server, timeout.signal);
    done.abort();
    if (answer !== undefined) return answer;
  }
  return undefined;
}

/** resolv.conf changes with the host's network. */
export function createForwarder({
  files,
  clock,
  randomId,
  ownAddress,
  port = PORT,
}: ForwarderDeps): ForwardQuery {
  const open = new Map<string, number>();
  let all = 0;
  return async (question, { isTcp, client }) => {
    const query = readQuery(question);
    const clientCount = open.get(client) ?? 0;
    if (query === undefined || all >= OPEN_MAX || clientCount >= OPEN_PER_CLIENT_MAX)
      return undefined;
    open.set(client, clientCount + 1);
    all += 1;
    try {
      const servers = parseServers((await files.readText(RESOLVER)) ?? "", ownAddress);
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
      all -= 1;
      const remaining = (open.get(client) ?? 1) - 1;
      if (remaining === 0) open.delete(client);
      else open.set(client, remaining);
    }
  };
}
