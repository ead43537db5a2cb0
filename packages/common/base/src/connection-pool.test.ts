// SPDX-License-Identifier: Apache-2.0
import { EventEmitter } from "node:events";
import { beforeEach, expect, test } from "vitest";
import {
  type Connection,
  ConnectionPool,
  limitConnections,
  limitHandshakes,
  limitPipelining,
} from "./connection-pool.ts";
import { SHARE_KEYS } from "./share-pool.ts";
import { ManualClock } from "./testing.ts";

const ATTACKER = "192.0.2.1";
const CLIENT = "192.0.2.2";
const SYSTEM = SHARE_KEYS.system("node");

let pool: ConnectionPool;
let closed: string[];

beforeEach(() => {
  pool = new ConnectionPool({ max: 6, share: 2, reserve: 2 });
  closed = [];
});

/** A connection from that port. It closes when it is destroyed, or by `close`. */
function connectionFrom(
  remotePort: number | undefined,
  remoteAddress: string | undefined = ATTACKER,
): Connection & { readonly off: () => void; readonly close: () => void } {
  const listeners: (() => void)[] = [];
  const close = (): void => {
    for (const listener of listeners) listener();
  };
  const destroy = (): void => {
    closed.push(`${remoteAddress} ${String(remotePort)}`);
    close();
  };
  const once = (_event: "close", listener: () => void): unknown => listeners.push(listener);
  const off = (): undefined => undefined;
  return { remoteAddress, remotePort, once, off, destroy, close };
}

test("closes the oldest silent connection of the same peer beyond the peer's share", () => {
  pool.add(connectionFrom(1, CLIENT));
  for (const port of [1, 2, 3, 4]) pool.add(connectionFrom(port));
  expect(closed).toEqual([`${ATTACKER} 1`, `${ATTACKER} 2`]);
});

test("closes the oldest silent connection of any peer if the tenants' part is used up", () => {
  for (const last of [3, 4, 5, 6, 7]) pool.add(connectionFrom(1, `192.0.2.${String(last)}`));
  expect(closed).toEqual(["192.0.2.3 1"]);
});

test("does not count closed connections", () => {
  const first = connectionFrom(1);
  pool.add(first);
  pool.add(connectionFrom(2));
  first.close();
  pool.add(connectionFrom(3));
  expect(closed).toEqual([]);
});

test("protects a connection during its requests, and counts its silence from their end", () => {
  const [one, two] = [connectionFrom(1), connectionFrom(2)];
  pool.add(one);
  pool.add(two);
  const ends = [pool.beginRequest(one), pool.beginRequest(one)];
  pool.add(connectionFrom(3));
  expect(closed).toEqual([`${ATTACKER} 2`]);
  for (const end of ends) end();
  pool.add(connectionFrom(4));
  expect(closed).toEqual([`${ATTACKER} 2`, `${ATTACKER} 3`]);
});

test("refuses a new connection if every other one has a request", () => {
  for (const port of [1, 2]) {
    pool.add(connectionFrom(port));
    pool.beginRequest(connectionFrom(port));
  }
  pool.add(connectionFrom(3));
  expect(closed).toEqual([`${ATTACKER} 3`]);
});

test("system connections use the reserve and survive a flood of others", () => {
  for (const port of [1, 2]) {
    pool.add(connectionFrom(port, CLIENT));
    pool.assign(connectionFrom(port, CLIENT), SYSTEM);
  }
  for (let last = 10; last < 30; last += 1) pool.add(connectionFrom(1, `192.0.2.${String(last)}`));
  expect(closed).toHaveLength(16);
  expect(closed.filter((name) => name.startsWith(`${CLIENT} `))).toEqual([]);
});

test("closes an assigned connection if its new key has no room and no silent connection", () => {
  for (const port of [1, 2]) {
    pool.add(connectionFrom(port, CLIENT));
    pool.assign(connectionFrom(port, CLIENT), SYSTEM);
    pool.beginRequest(connectionFrom(port, CLIENT));
  }
  pool.add(connectionFrom(3, CLIENT));
  const third = connectionFrom(3, CLIENT);
  pool.assign(third, SYSTEM);
  expect(closed).toEqual([`${CLIENT} 3`]);
});

test("does not close a connection that it no longer counts, whichever of its sockets is given", () => {
  for (const port of [1, 2]) pool.add(connectionFrom(port));
  pool.remove(connectionFrom(1));
  pool.add(connectionFrom(3));
  expect(closed).toEqual([]);
  pool.add(connectionFrom(4));
  expect(closed).toEqual([`${ATTACKER} 2`]);
});

test("the end of an earlier connection from the same port does not affect a later one", () => {
  const earlier = connectionFrom(1);
  pool.add(earlier);
  pool.add(connectionFrom(1));
  earlier.close();
  for (const port of [2, 3]) pool.add(connectionFrom(port));
  expect(closed).toEqual([`${ATTACKER} 1`]);
});

test("tells connections of a Unix socket apart", () => {
  const open = (): Connection => ({ ...connectionFrom(undefined), remoteAddress: undefined });
  const [one, two] = [open(), open()];
  pool.add(one);
  pool.add(two);
  pool.beginRequest(one);
  pool.add(open());
  expect(closed).toHaveLength(1);
});

test("follows an HTTP server: requests protect, and certificates give access to the reserve", () => {
  const server = new EventEmitter();
  const certified = new Set<unknown>();
  const limits = { max: 3, share: 2, reserve: 1 };
  limitConnections(server, limits, (connection) => certified.has(connection));
  const connect = (port: number): void => void server.emit("connection", connectionFrom(port));
  const secure = (port: number, isCertified: boolean): void => {
    const connection = connectionFrom(port);
    if (isCertified) certified.add(connection);
    server.emit("secureConnection", connection);
  };
  connect(1);
  secure(1, true);
  connect(2);
  secure(2, false);
  const response = new EventEmitter();
  server.emit("request", { socket: connectionFrom(2) }, response);
  connect(3);
  connect(4);
  expect(closed).toEqual([`${ATTACKER} 3`]);
  response.emit("close");
  connect(5);
  expect(closed).toEqual([`${ATTACKER} 3`, `${ATTACKER} 4`]);
});

test("delays handshakes of an address that opens many connections, and omits those that closed", async () => {
  const clock = new ManualClock();
  const started: number[] = [];
  const server = new EventEmitter();
  server.on("connection", ({ remotePort }: Connection) => started.push(remotePort ?? 0));
  limitHandshakes(
    server,
    { burst: 200, perSecond: 30 },
    { clock, stop: new AbortController().signal },
  );
  const connections = Array.from({ length: 203 }, (_none, port) => connectionFrom(port));
  for (const connection of connections) server.emit("connection", connection);
  server.emit("connection", { ...connectionFrom(999), remoteAddress: "192.0.2.99" });
  for (let turn = 0; turn < 50; turn += 1) await clock.advance(0);
  expect(started.filter((port) => port < 999)).toHaveLength(200);
  expect(started).toContain(999);
  connections[200]?.close();
  connections[201]?.close();
  await clock.advance(34);
  expect(started.at(-1)).toBe(202);
});

test("closes a connection that sends more requests than it may have open", () => {
  const server = new EventEmitter();
  const handled: unknown[] = [];
  server.on("request", (request) => handled.push(request));
  limitPipelining(server);
  const socket = connectionFrom(1);
  const ask = (): EventEmitter => {
    const response = new EventEmitter();
    server.emit("request", { socket }, response);
    return response;
  };
  const responses = [ask(), ask(), ask(), ask()];
  responses[0]?.emit("close");
  ask();
  expect(closed).toEqual([]);
  ask();
  expect(closed).toEqual([`${ATTACKER} 1`]);
  expect(handled).toHaveLength(5);
});
