// SPDX-License-Identifier: Apache-2.0
import { Duplex } from "node:stream";
import { setImmediate as turn } from "node:timers/promises";
import { expect, test } from "vitest";
import { joinStreams } from "./serve-requests.ts";

/** One end of a stream. Records what it receives; a deaf one accepts nothing. */
class End extends Duplex {
  readonly heard: string[] = [];
  isDeaf = false;
  #pending: (() => void) | undefined;

  override _read(): void {
    // Data is pushed by the test.
  }

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    this.heard.push(String(chunk));
    if (this.isDeaf) this.#pending = done;
    else done();
  }

  listenAgain(): void {
    this.isDeaf = false;
    this.#pending?.();
  }
}

const MIB = 1024 * 1024;

function pair(stream: "console" | "vnc"): { readonly guest: End; readonly client: End } {
  const [guest, client] = [new End(), new End()];
  guest.pause(); // as a socket of a pod is opened
  joinStreams(stream, guest, client);
  return { guest, client };
}

test.each(["console", "vnc"] as const)("copies bytes of a %s both ways", async (stream) => {
  const { guest, client } = pair(stream);
  guest.push("login: ");
  client.push("root\n");
  await turn();
  expect([guest.heard, client.heard]).toEqual([["root\n"], ["login: "]]);
});

test("reads a console beside a slow client, and reports what it dropped", async () => {
  const { guest, client } = pair("console");
  client.isDeaf = true;
  for (let index = 0; index < 4; index += 1) guest.push(Buffer.alloc(MIB / 2));
  guest.push(Buffer.alloc(100));
  await turn();
  expect([client.heard, guest.readableLength]).toHaveLength(2);
  expect(guest.readableLength).toBe(0);
  client.listenAgain();
  await turn();
  guest.push("again");
  await turn();
  expect(client.heard.slice(-2)).toEqual([
    expect.stringMatching(/^\r\n\[\d+ bytes of console output were dropped\]\r\n$/),
    "again",
  ]);
});

test("a screen waits for its client", async () => {
  const { guest, client } = pair("vnc");
  client.isDeaf = true;
  for (let index = 0; index < 4; index += 1) guest.push(Buffer.alloc(MIB));
  await turn();
  expect(guest.readableLength).toBeGreaterThan(0);
});

test.each(["console", "vnc"] as const)("a %s ends with either side", async (stream) => {
  const one = pair(stream);
  one.guest.push(null);
  one.guest.destroy();
  await turn();
  expect(one.client.writableEnded).toBe(true);
  const other = pair(stream);
  other.client.destroy();
  await turn();
  expect(other.guest.destroyed).toBe(true);
});

test("reads from a client after its own end was sent, until the client ends", async () => {
  const { guest, client } = pair("vnc");
  guest.push(null);
  guest.destroy();
  await turn();
  client.push("too late");
  client.push(null);
  for (let turns = 0; turns < 5; turns += 1) await turn();
  expect(client.destroyed).toBe(true);
});
