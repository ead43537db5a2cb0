// SPDX-License-Identifier: Apache-2.0
// Spoofed DNS replies, and a client that floods the name server.
import { createSocket, type RemoteInfo, type Socket } from "node:dgram";
import { once } from "node:events";
import * as dns from "dns-packet";
import { createClock } from "@patchbay/os";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { ForwardQuery } from "../../../packages/standalone/service-net/src/dns/answer.ts";
import { createForwarder } from "../../../packages/standalone/service-net/src/dns/forwarder.ts";

/** A loopback address that only this file uses. */
const SERVER = "127.0.53.103";
const ID = 4711;

let server: Socket;
let ask: ForwardQuery;

beforeEach(async () => {
  server = createSocket("udp4");
  server.bind(0, SERVER);
  await once(server, "listening");
  ask = createForwarder({
    files: { readText: () => Promise.resolve(`nameserver 10.96.0.10\nnameserver ${SERVER}\n`) },
    clock: createClock(),
    randomId: () => ID,
    ownAddress: "10.96.0.10",
    port: server.address().port,
  });
});

afterEach(() => {
  server.close();
});

function answer(name: string, address: string, id = ID): Buffer {
  const answers: dns.Answer[] = [{ type: "A", name, ttl: 60, data: address }];
  return dns.encode({ type: "response", id, questions: [{ type: "A", name }], answers });
}

function question(name: string): Buffer {
  return dns.encode({ type: "query", id: 1, questions: [{ type: "A", name }] });
}

test("attack 103: ignores replies with a wrong id, name or port", async () => {
  const otherClient = createSocket("udp4");
  otherClient.bind(0, SERVER);
  await once(otherClient, "listening");
  server.once("message", (_bytes: Buffer, { port, address }: RemoteInfo) => {
    otherClient.send(answer("example.org", "192.0.2.66"), port, address, () => {
      for (const forged of [
        answer("example.org", "192.0.2.66", ID + 1),
        answer("other.org", "192.0.2.66"),
        question("example.org"),
        Buffer.from("x"),
        answer("example.org", "192.0.2.7"),
      ])
        server.send(forged, port, address);
    });
  });
  const bytes = await ask(question("example.org"), { isTcp: false, client: "10.88.0.5" });
  otherClient.close();
  expect(bytes === undefined ? [] : dns.decode(bytes).answers).toMatchObject([
    { data: "192.0.2.7" },
  ]);
});

test("attack 103: one client with 64 open queries does not block other clients", async () => {
  const how = { isTcp: false, client: "10.88.0.66" };
  const open = Array.from({ length: 64 }, () => ask(question("slow.org"), how));
  // No client asks it.
  expect(await ask(question("more.org"), how)).toBeUndefined();
  server.on("message", (bytes: Buffer, { port, address }: RemoteInfo) => {
    const name = dns.decode(bytes).questions?.[0]?.name ?? "";
    if (name !== "slow.org") server.send(answer(name, "192.0.2.7"), port, address);
  });
  const other = await ask(question("example.org"), { isTcp: false, client: "10.88.0.5" });
  expect(other).toBeDefined();
  expect(await Promise.all(open)).toEqual(open.map(() => undefined));
});
