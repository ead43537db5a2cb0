// SPDX-License-Identifier: Apache-2.0
// A peer that talks without end is read to its end, whether its words are wanted or not.
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { startRelay } from "./relay.ts";
import { connectUnixSocket } from "./unix-socket.ts";

let directory = "";
let server: Server;
let guest: Socket;
let reader: Socket;
const undo: (() => void)[] = [];

beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), "patchbay-relay-"));
  server = createServer();
  undo.push(() => {
    server.close();
    rmSync(directory, { recursive: true, force: true });
  });
  server.listen(join(directory, "s"));
  await once(server, "listening");
  const arrival = once(server, "connection");
  const peer = await connectUnixSocket({ directory, path: "s" });
  [guest] = (await arrival) as [Socket]; // what the event brings
  undo.push(() => guest.destroy());
  reader = startRelay(peer);
  undo.push(() => reader.destroy());
});
afterEach(() => {
  for (const step of undo.splice(0).reverse()) step();
});

/** Writes that much, as a guest does whose console is read as fast as it goes. */
async function talk(megabytes: number): Promise<void> {
  const line = Buffer.from(`${"x".repeat(1022)}\r\n`);
  for (let kib = 0; kib < megabytes * 1024; kib += 1) {
    if (!guest.write(line)) await once(guest, "drain");
  }
}

describe("a relay", () => {
  test("brings words both ways, and the end", async () => {
    guest.write("login: ");
    const [prompt] = (await once(reader, "data")) as [Buffer];
    expect(prompt.toString()).toBe("login: ");
    reader.write("root\n");
    const [answer] = (await once(guest, "data")) as [Buffer];
    expect(answer.toString()).toBe("root\n");
    guest.end("bye");
    const rest = await reader.setEncoding("utf8").toArray();
    expect(rest.join("")).toBe("bye");
  });

  test("reads a guest that floods on while nobody reads here, and says what is lost", async () => {
    reader.pause();
    await talk(8);
    guest.end("the end");
    const text = (await reader.setEncoding("utf8").toArray()).join("");
    expect(text).toMatch(/\[patchbay: \d+ bytes were not read in time\]/);
    expect(text.endsWith("the end")).toBe(true);
    expect(text.length).toBeLessThan(2 * 1024 * 1024);
  });

  test("lets what was typed last go out, and leaves", async () => {
    const gone = once(guest, "end");
    const typed: string[] = [];
    guest.setEncoding("utf8").on("data", (text: string) => typed.push(text));
    reader.write("poweroff\n");
    reader.destroySoon();
    await gone;
    expect(typed.join("")).toBe("poweroff\n");
  });
});
