// SPDX-License-Identifier: Apache-2.0
// Asks the host's name servers what is not ours: each question from a port of its own, with an id of its own.
import { createSocket } from "node:dgram";
import { createConnection, isIP } from "node:net";
import type { Clock, Files } from "@patchbay/core/ports";
import type { AskOthers } from "./answer.ts";
import { isAnswerTo, readQuery, withId } from "./packets.ts";

const RESOLVER = "/etc/resolv.conf";
const PORT = 53;
/** For each server. Source: resolv.conf(5), timeout of 5 s for clients, who are to get an answer before. */
const TIMEOUT_MS = 2000;
/** Source: resolv.conf(5), MAXNS */
const SERVERS_MAX = 3;
/** Questions that are open at once: of all, and of one client. */
const OPEN_MAX = 512;
const OPEN_OF_ONE_MAX = 64;
const LENGTH_BYTES = 2;

/** What the host's resolver asks, in its order, but this server. */
export function serversIn(text: string, own: string): readonly string[] {
  return text
    .split("\n")
    .map((line) => line.trim().split(/\s+/))
    .flatMap(([key, value = ""]) => (key === "nameserver" && isIP(value) !== 0 ? [value] : []))
    .filter((server) => server !== own)
    .slice(0, SERVERS_MAX);
}

/** One server and one question. */
interface Asking {
  readonly server: string;
  readonly port: number;
  readonly bytes: Buffer;
  readonly isAnswer: (bytes: Buffer) => boolean;
  readonly signal: AbortSignal;
}

function askByUdp({ server, port, bytes, isAnswer, signal }: Asking): Promise<Buffer | undefined> {
  const { promise, resolve } = Promise.withResolvers<Buffer | undefined>();
  const socket = createSocket(isIP(server) === 6 ? "udp6" : "udp4");
  const end = (answer?: Buffer): void => {
    resolve(answer);
  };
  signal.addEventListener("abort", () => {
    end();
  });
  socket.on("error", () => {
    end();
  });
  socket.on("message", (message) => {
    if (isAnswer(message)) end(message);
  });
  // Connected: the kernel takes nothing from anybody else.
  socket.connect(port, server, () => {
    socket.send(bytes);
  });
  return promise.finally(() => {
    socket.close();
  });
}

function askByTcp({ server, port, bytes, isAnswer, signal }: Asking): Promise<Buffer | undefined> {
  const { promise, resolve } = Promise.withResolvers<Buffer | undefined>();
  const socket = createConnection({ host: server, port });
  let read = Buffer.alloc(0);
  const end = (answer?: Buffer): void => {
    resolve(answer);
    socket.destroy();
  };
  signal.addEventListener("abort", () => {
    end();
  });
  socket.on("error", () => {
    end();
  });
  socket.on("close", () => {
    end();
  });
  socket.on("data", (piece) => {
    read = Buffer.concat([read, piece]);
    const length = read.length < LENGTH_BYTES ? Infinity : read.readUInt16BE(0) + LENGTH_BYTES;
    if (read.length < length) return;
    const answer = read.subarray(LENGTH_BYTES, length);
    end(isAnswer(answer) ? answer : undefined);
  });
  const length = Buffer.alloc(LENGTH_BYTES);
  length.writeUInt16BE(bytes.length, 0);
  socket.write(Buffer.concat([length, bytes]));
  return promise;
}

/** What is asked with. */
export interface OthersDeps {
  readonly files: Pick<Files, "readText">;
  readonly clock: Clock;
  /** From 0, and below 65,536, that nobody can guess. */
  readonly randomId: () => number;
  /** This server's own address, which is not asked. */
  readonly own: string;
  /** Port of the other servers; default 53. */
  readonly port?: number;
}

/** One server after the other, until one answers. */
async function askAll(
  servers: readonly string[],
  ask: (server: string, signal: AbortSignal) => Promise<Buffer | undefined>,
  clock: Clock,
): Promise<Buffer | undefined> {
  for (const server of servers) {
    const late = new AbortController();
    const waited = new AbortController();
    clock.sleep(TIMEOUT_MS, waited.signal).then(
      () => {
        late.abort();
      },
      () => undefined, // the answer came first
    );
    const answer = await ask(server, late.signal);
    waited.abort();
    if (answer !== undefined) return answer;
  }
  return undefined;
}

/** What the host's resolver is told is read for each question: it changes with the host's network. */
export function createOthers({ files, clock, randomId, own, port = PORT }: OthersDeps): AskOthers {
  const open = new Map<string, number>();
  let all = 0;
  return async (question, { isTcp, client }) => {
    const query = readQuery(question);
    const ofClient = open.get(client) ?? 0;
    if (query === undefined || all >= OPEN_MAX || ofClient >= OPEN_OF_ONE_MAX) return undefined;
    open.set(client, ofClient + 1);
    all += 1;
    try {
      const servers = serversIn((await files.readText(RESOLVER)) ?? "", own);
      return await askAll(
        servers,
        (server, signal) => {
          const id = randomId();
          const isAnswer = (bytes: Buffer): boolean => isAnswerTo(bytes, query, id);
          const asking = { server, port, bytes: withId(question, id), isAnswer, signal };
          return isTcp ? askByTcp(asking) : askByUdp(asking);
        },
        clock,
      );
    } finally {
      all -= 1;
      const left = (open.get(client) ?? 1) - 1;
      if (left === 0) open.delete(client);
      else open.set(client, left);
    }
  };
}
