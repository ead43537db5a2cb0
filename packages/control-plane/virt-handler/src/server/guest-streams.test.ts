// SPDX-License-Identifier: Apache-2.0
// Clients of guests' consoles and screens.
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { connect, createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AppError } from "@patchbay/base";
import { eventually } from "@patchbay/support";
import { afterEach, beforeEach, expect, test } from "vitest";
import { LoopNode } from "../testing/loop-node.ts";
import { aScheduledVmi } from "../testing/scene.ts";
import type { ConnectToPod, OpenGuestStream } from "./guest-streams.ts";

const KEY = { namespace: "default", name: "vm1" };
const SOON = { withinMs: 5_000 };
const TAKES = { stream: "console", preservesSession: false } as const;
const KEEPS = { stream: "console", preservesSession: true } as const;

let node: LoopNode;
let directory: string;
let server: Server;
let open: OpenGuestStream;
let asked: string[];

/** A QEMU whose one socket serves all streams. */
const connectHere: ConnectToPod = async (_pod, socket) => {
  asked.push(socket);
  const made: Socket = connect(join(directory, "qemu.sock"));
  await once(made, "connect");
  return made;
};

beforeEach(async () => {
  asked = [];
  directory = mkdtempSync(join(tmpdir(), "streams-"));
  server = createServer((socket) => {
    socket.on("error", () => socket.destroy());
    socket.write("login: ");
  });
  server.listen(join(directory, "qemu.sock"));
  node = new LoopNode();
  await node.put(aScheduledVmi(["one"]));
  node.start();
  await eventually(() => node.isRunning, SOON);
  open = node.createOpenStream(connectHere);
});

afterEach(async () => {
  server.close();
  await node.stop();
  rmSync(directory, { recursive: true });
});

async function isClosed(socket: Socket): Promise<boolean> {
  return eventually(() => socket.destroyed, SOON);
}

test("opens a console and forwards its output", async () => {
  const socket = await open(KEY, TAKES);
  const [words] = (await once(socket, "data")) as [Buffer];
  expect([String(words), asked]).toEqual(["login: ", ["serial0.sock"]]);
  socket.destroy();
});

test("a new client replaces the current one; screens are independent of consoles", async () => {
  const first = await open(KEY, TAKES);
  const screen = await open(KEY, { ...TAKES, stream: "vnc" });
  const second = await open(KEY, TAKES);
  expect(await isClosed(first)).toBe(true);
  expect([screen.destroyed, second.destroyed]).toEqual([false, false]);
  for (const socket of [screen, second]) socket.destroy();
});

test("opens a screen beside its current client", async () => {
  const first = await open(KEY, { ...KEEPS, stream: "vnc" });
  const beside = await open(KEY, { ...KEEPS, stream: "vnc", sharesScreen: true });
  await once(beside, "data");
  expect([first.destroyed, asked]).toEqual([false, ["vnc.sock", "vnc.sock"]]);
  for (const socket of [first, beside]) socket.destroy();
});

test("one of two concurrent clients gets the console", async () => {
  const both = await Promise.all([open(KEY, TAKES), open(KEY, TAKES)]);
  await eventually(() => both.filter(({ destroyed }) => destroyed).length === 1, SOON);
  for (const socket of both) socket.destroy();
});

test("rejects a client that preserves the session, until the console is free", async () => {
  const first = await open(KEY, KEEPS);
  await expect(open(KEY, KEEPS)).rejects.toMatchObject({ code: "GUEST_STREAM_IN_USE" });
  expect(first.destroyed).toBe(false);
  first.destroy();
  await once(first, "close");
  const second = await open(KEY, KEEPS);
  second.destroy();
});

test.each([
  { errno: "ENOENT", code: "LAUNCHER_UNREACHABLE" },
  { errno: "ECONNREFUSED", code: "LAUNCHER_UNREACHABLE" },
  { errno: "EACCES", code: "OS_FILE_FAILED" },
])("maps $errno of the socket to $code", async ({ errno, code }) => {
  const failing = node.createOpenStream(() =>
    Promise.reject(new AppError("OS_FILE_FAILED", { call: "connect", path: "/x", errno })),
  );
  await expect(failing(KEY, TAKES)).rejects.toMatchObject({ code });
});

test("does not find a guest of another node", async () => {
  const other = { ...KEY, name: "other" };
  await expect(open(other, TAKES)).rejects.toMatchObject({ code: "KUBE_NOT_FOUND" });
});
