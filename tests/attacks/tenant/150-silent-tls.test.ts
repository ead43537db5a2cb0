// SPDX-License-Identifier: Apache-2.0
// Silent TLS connections to the HTTPS server of the services.
import { once } from "node:events";
import { get } from "node:https";
import type { IncomingMessage } from "node:http";
import { connect, type TLSSocket } from "node:tls";
import { createClock } from "@patchbay/os";
import { createAuthority, issueCertificate } from "@patchbay/pki";
import { createSilentLogger } from "@patchbay/telemetry";
import { eventually } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startServer } from "../../../packages/common/daemon/src/https/server.ts";

const ATTACKER = "127.0.0.2";
const SILENT = 200;
/** The share of an address. */
const SHARE = 128;

const stop = new AbortController();
const sockets: TLSSocket[] = [];
let port: number;

beforeAll(async () => {
  const authority = await createAuthority("ca", createClock());
  const pair = await issueCertificate(authority, {
    commonName: "virt-api",
    organizations: [],
    usages: ["server"],
    dnsNames: [],
    ipAddresses: ["127.0.0.1"],
    validDays: 1,
  });
  const certificate = { read: () => Promise.resolve(pair), onChange: () => undefined };
  const settings = { listenAddress: "127.0.0.1", port: 0, certificate, clientAuthorities: [] };
  const app = (_request: unknown, response: { end: (text: string) => unknown }): void => {
    response.end("ok");
  };
  ({ port } = await startServer(app, settings, {
    log: createSilentLogger(),
    signal: stop.signal,
  }));
});

afterAll(() => {
  stop.abort();
  for (const socket of sockets) socket.destroy();
});

async function connectFrom(localAddress: string): Promise<TLSSocket> {
  const options = { host: "127.0.0.1", port, localAddress, rejectUnauthorized: false };
  const socket = connect(options);
  socket.on("error", () => undefined).resume();
  sockets.push(socket);
  await once(socket, "secureConnect");
  return socket;
}

test("attack 150: one address has the newest of its silent connections, and others are served", async () => {
  for (let count = 0; count < SILENT; count += 1) await connectFrom(ATTACKER);
  await eventually(() => sockets.filter(({ closed }) => !closed).length === SHARE, {
    withinMs: 10_000,
  });
  expect(sockets.findIndex(({ closed }) => !closed)).toBe(SILENT - SHARE);
  for (const localAddress of ["127.0.0.3", ATTACKER]) {
    const options = { host: "127.0.0.1", port, localAddress, agent: false };
    const request = get({ ...options, rejectUnauthorized: false });
    const [response] = (await once(request, "response")) as [IncomingMessage];
    response.resume();
    expect(response.statusCode).toBe(200);
  }
});
