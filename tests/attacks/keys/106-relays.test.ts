// SPDX-License-Identifier: Apache-2.0
// Clients that try to reach a launcher's libvirt through a target node's migration relay.
import { chmodSync, chownSync, mkdirSync } from "node:fs";
import { once } from "node:events";
import { connect as connectPlain, createServer, type Server, type Socket } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { connect } from "node:tls";
import { names } from "@patchbay/api";
import { eventually } from "@patchbay/support";
import { type Relay, type RelayIdentity, type RelayMessage } from "@patchbay/virt-handler/testing";
import { afterEach, beforeEach, expect, test } from "vitest";
import {
  LIBVIRT_SOCKET,
  MIGRATION,
  RelayBench,
  SOURCE,
} from "../../contract/libvirt/relay-bench.ts";
import { LAUNCHER } from "../../contract/libvirt/session.ts";

let bench: RelayBench;
let relay: Relay;
let words: RelayMessage[];
/** Sends `libvirt` to each client and counts the clients. */
let libvirt: Server;
let visits: number;

beforeEach(async () => {
  bench = await RelayBench.make();
  words = [];
  visits = 0;
  const path = join(bench.targetDirectory, LIBVIRT_SOCKET);
  mkdirSync(join(bench.targetDirectory, "libvirt"));
  libvirt = createServer((socket) => {
    visits += 1;
    socket.on("error", () => undefined);
    socket.end("libvirt");
  }).listen(path);
  await once(libvirt, "listening");
  chownSync(path, LAUNCHER.uid, LAUNCHER.gid);
  chmodSync(path, 0o700);
  relay = await bench.receive({ greetingMs: 1000 });
  relay.onMessage((word) => words.push(word));
});

afterEach(async () => {
  libvirt.close();
  await bench.close();
});

/** The reply to a client with that identity and greeting. */
async function visit(
  { certPem: cert, keyPem: key }: Partial<RelayIdentity>,
  output: string,
): Promise<string> {
  const port = relay.ports.libvirt ?? 0;
  const shown = cert === undefined || key === undefined ? {} : { cert, key };
  const socket = connect({ ...shown, host: "127.0.0.1", port, rejectUnauthorized: false });
  socket.on("error", () => socket.destroy());
  socket.write(output);
  return text(socket).catch(() => ""); // the connection was closed
}

const greeting = (change: object = {}): string =>
  `${JSON.stringify({ migration: MIGRATION, channel: "libvirt", ...change })}\n`;

test("attack 106: the source node reaches libvirt, once, although other clients connected first", async () => {
  const itself = await bench.identityOf(SOURCE);
  expect(await visit({}, greeting())).toBe("");
  expect(await visit(itself, greeting())).toBe("libvirt");
  expect(await visit(itself, greeting())).toBe("");
  expect(visits).toBe(1);
  const refusal = { kind: "refused", reason: "channel libvirt is taken" };
  await expect.poll(() => words).toContainEqual(refusal);
});

test.each([
  { who: "another node", name: "node-3", groups: [names.RELAY_GROUP], said: greeting() },
  {
    who: "another client of the same authority with that name",
    name: SOURCE,
    groups: [],
    said: greeting(),
  },
  {
    who: "the node of another migration",
    name: SOURCE,
    groups: [names.RELAY_GROUP],
    said: greeting({ migration: "0" }),
  },
  {
    who: "the node that requests another channel",
    name: SOURCE,
    groups: [names.RELAY_GROUP],
    said: greeting({ channel: "memory" }),
  },
  {
    who: "another node that reports that the guest is off",
    name: "node-3",
    groups: [names.RELAY_GROUP],
    said: `${JSON.stringify({ migration: MIGRATION, says: "gone" })}\n`,
  },
  {
    who: "a client that sends nothing",
    name: SOURCE,
    groups: [names.RELAY_GROUP],
    said: "",
  },
  {
    who: "a client that sends too much",
    name: SOURCE,
    groups: [names.RELAY_GROUP],
    said: "x".repeat(1_000_000),
  },
])("attack 106: rejects $who", async ({ name, groups, said: output }) => {
  const identity = await bench.identityOf(name, groups);
  expect(await visit(identity, output)).toBe("");
  await eventually(() => words.some(({ kind }) => kind === "refused"), { withinMs: 10_000 });
  expect(visits).toBe(0);
  expect(words).not.toContainEqual({ kind: "gone" });
});

test("attack 106: rejects a node with a self-signed certificate", async () => {
  const otherClient = await RelayBench.make();
  try {
    expect(await visit(await otherClient.identityOf(SOURCE), greeting())).toBe("");
    expect(visits).toBe(0);
  } finally {
    await otherClient.close();
  }
});

test("attack 132: many silent connections block neither the source node nor its report that the guest is off", async () => {
  const itself = await bench.identityOf(SOURCE);
  const silent: Socket[] = [];
  try {
    for (let count = 0; count < 600; count += 1) {
      const socket = connectPlain(relay.ports.libvirt ?? 0, "127.0.0.1");
      socket.on("error", () => socket.destroy());
      silent.push(socket);
    }
    // All have connected, and the oldest were closed to make room.
    await expect.poll(() => silent.filter(({ destroyed }) => destroyed).length).toBe(600 - 64);
    expect(await visit(itself, greeting())).toBe("libvirt");
    const gone = `${JSON.stringify({ migration: MIGRATION, says: "gone" })}\n`;
    expect(await visit(itself, gone)).toBe("heard\n");
    // The message uses another connection than the reply and may arrive later.
    await expect.poll(() => words).toContainEqual({ kind: "gone" });
  } finally {
    for (const socket of silent) socket.destroy();
  }
});
