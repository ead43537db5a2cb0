// SPDX-License-Identifier: Apache-2.0
// A flood of silent TLS connections to the program virt-api, from many addresses.
import { once } from "node:events";
import { connect as connectTcp, type Socket } from "node:net";
import { connect } from "node:tls";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Person, VirtApiMachine } from "../virt-api-machine.ts";

const CONNECTIONS = 12_000;
const ADDRESSES = 100;
const AT_ONCE = 200;
/** All connections that virt-api accepts from clients without a certificate take 35 MB. */
const GROWTH_MAX = 200 * 1024 * 1024;
/** The handshake's limit of 5 s, and as much for a busy machine. */
const HANDSHAKE_MS = 10_000;

let machine: VirtApiMachine;
let tenant: Person;
const sockets = new Set<Socket>();

beforeAll(async () => {
  machine = await VirtApiMachine.start();
  tenant = await machine.person("admin", ["system:masters"]);
}, 120_000);

afterAll(async () => {
  for (const socket of sockets) socket.destroy();
  await machine[Symbol.asyncDispose]();
});

function addressOf(index: number): string {
  return `127.0.1.${String((index % ADDRESSES) + 1)}`;
}

function keep(socket: Socket): Socket {
  sockets.add(socket);
  socket.on("error", () => undefined).resume();
  return socket.once("close", () => sockets.delete(socket));
}

/** Resolves when TLS is established, or when the server has closed the connection to make room. */
async function connectSilently(index: number): Promise<void> {
  const { hostname: host, port } = new URL(machine.url);
  const options = { host, port: Number(port), localAddress: addressOf(index) };
  const socket = connect({ ...options, rejectUnauthorized: false });
  keep(socket);
  const secured = once(socket, "secureConnect").catch(() => undefined);
  await Promise.race([secured, once(socket, "close")]);
}

test("attack 150: 12,000 silent connections take little memory, and tenants are served meanwhile", async () => {
  const before = await machine.memory();
  for (let count = 0; count < CONNECTIONS; count += AT_ONCE) {
    await Promise.all(Array.from({ length: AT_ONCE }, (_, index) => connectSilently(index)));
    if (count % 2000 > 0) continue;
    const name = `vm-${String(count)}`;
    const mac = `02:00:00:00:00:${String(count / 2000).padStart(2, "0")}`;
    expect(await machine.makeVm("default", name, mac)).toMatchObject({ code: 201 });
    const path = "/apis/subresources.kubevirt.io/v1/version";
    expect(await tenant.ask("GET", path)).toMatchObject({ code: 200 });
  }
  const { now, most } = await machine.memory();
  const megabytes = [before.now, now, most].map((bytes) => Math.round(bytes / 1e6));
  process.stdout.write(`virt-api: ${megabytes.join(", ")} MB; ${String(sockets.size)} open\n`);
  expect(most - before.now).toBeLessThan(GROWTH_MAX);
});

test("attack 150: ends handshakes that do not begin", async () => {
  const { hostname: host, port } = new URL(machine.url);
  const begun = performance.now();
  const waiting = Array.from({ length: 50 }, (_, index) =>
    keep(connectTcp({ host, port: Number(port), localAddress: addressOf(index) })),
  );
  await Promise.all(waiting.map((socket) => once(socket, "close")));
  expect(performance.now() - begun).toBeLessThan(HANDSHAKE_MS);
});
