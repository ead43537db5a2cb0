// SPDX-License-Identifier: Apache-2.0
// Connections that stay open to an agent's health port.
import { once } from "node:events";
import { get, type IncomingMessage } from "node:http";
import { connect, type Socket } from "node:net";
import { createSilentLogger } from "@patchbay/telemetry";
import { afterEach, beforeEach, expect, test } from "vitest";
import { serveHealth } from "../../../packages/common/daemon/src/health-server.ts";

const CONNECTIONS = 64;
const PROBES = 30;
const PROBE = "127.0.0.1";
const UNFINISHED = "GET /healthz HTTP/1.1\r\nhost: a\r\n";

let stop: AbortController;
let port: number;
let sockets: Socket[];

beforeEach(async () => {
  stop = new AbortController();
  sockets = [];
  const answers = { isLive: () => true, isReady: () => Promise.resolve(true) };
  port = (await serveHealth(0, answers, { log: createSilentLogger(), signal: stop.signal })) ?? 0;
});

afterEach(() => {
  stop.abort();
  for (const socket of sockets) socket.destroy();
});

/** Keeps a connection open: opens it again whenever the server closes it. */
function stay(localAddress: string, text: string): void {
  const socket = connect({ port, host: "127.0.0.1", localAddress });
  sockets.push(socket);
  socket.on("error", () => undefined).resume();
  socket.write(text);
  socket.once("close", () => {
    if (!stop.signal.aborted) setImmediate(stay, localAddress, text);
  });
}

async function probe(): Promise<number | undefined> {
  const request = get({ port, host: "127.0.0.1", path: "/healthz", localAddress: PROBE });
  const [response] = (await once(request, "response")) as [IncomingMessage];
  response.resume();
  return response.statusCode;
}

test.each([
  {
    from: "eight addresses",
    addresses: Array.from({ length: 8 }, (_, index) => `127.0.0.${String(index + 2)}`),
    text: UNFINISHED,
  },
  { from: "the address of the probes", addresses: [PROBE], text: "" },
])(
  "attack 149: probes succeed during 64 connections from $from that stay open",
  async ({ addresses, text }) => {
    for (let count = 0; count < CONNECTIONS; count += 1) {
      stay(addresses[count % addresses.length] ?? PROBE, text);
    }
    const codes: (number | undefined)[] = [];
    for (let count = 0; count < PROBES; count += 1) codes.push(await probe());
    expect(new Set(codes)).toEqual(new Set([200]));
    // The server did close connections, so they were too many.
    expect(sockets.length).toBeGreaterThan(CONNECTIONS);
  },
);
