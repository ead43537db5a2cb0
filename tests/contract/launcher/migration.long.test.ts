// SPDX-License-Identifier: Apache-2.0
// The two launchers of a migration: neither ends before it is told to, and no shutdown is lost.
import { chownSync, existsSync, readFileSync, renameSync } from "node:fs";
import { once } from "node:events";
import { connect, createServer, type Server, type Socket } from "node:net";
import { join } from "node:path";
import { names } from "@patchbay/api";
import { eventually, openGuestConsole, type GuestConsole } from "@patchbay/support";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { makeGuestImage } from "../guest-image.ts";
import { LauncherBench, type LauncherPod } from "./pod.ts";

/** Making the images takes most of a minute, once. */
const IMAGES_MS = 300_000;
const PEER = "peer.sock";
const MEMORY = "migration.sock";

let bench: LauncherBench;
let source: LauncherPod | undefined;
let target: LauncherPod | undefined;
let guest: GuestConsole;
let ways: readonly Server[];
let sockets: Socket[];

/** A socket in one launcher's directory that leads to one in another's, in place of the nodes' relays. */
async function lead(from: string, to: string): Promise<Server> {
  const server = createServer((socket) => {
    const other = connect(to);
    for (const one of [socket, other]) {
      one.on("error", () => one.destroy());
      one.on("close", () => {
        socket.destroy();
        other.destroy();
      });
      sockets.push(one);
    }
    socket.pipe(other).pipe(socket);
  }).listen(from);
  await once(server, "listening");
  chownSync(from, names.LAUNCHER_UID, names.LAUNCHER_UID);
  return server;
}

function launcherOf(pod: LauncherPod | undefined): LauncherPod {
  if (pod === undefined) throw new Error("the launcher has not been started");
  return pod;
}

const here = (): LauncherPod => launcherOf(source);
const there = (): LauncherPod => launcherOf(target);

beforeAll(async () => {
  bench = await LauncherBench.open(makeGuestImage());
}, IMAGES_MS);
afterAll(async () => {
  await bench.close();
});

beforeEach(async () => {
  sockets = [];
  source = await bench.launch();
  target = await bench.launch();
  const leads = [
    [PEER, names.LIBVIRT_SOCKET],
    [MEMORY, MEMORY],
  ] as const;
  ways = await Promise.all(
    leads.map(([from, to]) => lead(join(here().volume, from), join(there().volume, to))),
  );
  guest = await here().boot();
});

afterEach(async () => {
  for (const socket of sockets) socket.destroy();
  for (const way of ways) way.close();
  await source?.remove();
  await target?.remove();
});

/** Migrates the guest, which is paused at its target. */
function migrate(...more: readonly string[]): Promise<string> {
  const peer = `qemu+unix:///session?socket=${names.LAUNCHER_DIR}/${PEER}`;
  const memory = ["--migrateuri", `unix:${names.LAUNCHER_DIR}/${MEMORY}`];
  const how = ["--live", "--p2p", "--persistent", "--undefinesource", "--suspend"];
  return here().virsh("migrate", "vm", peer, ...memory, ...how, ...more);
}

/** Starts a long migration; `moved`: its result. */
async function migrateSlowly(): Promise<{ readonly moved: Promise<unknown> }> {
  const moved = migrate("--bandwidth", "1").catch((error: unknown) => error);
  // The job begins before the target has a QEMU.
  const isOnItsWay = async (): Promise<boolean> =>
    there().pids("qemu").length > 0 &&
    /^Job type: +Unbounded/m.test(await here().virsh("domjobinfo", "vm"));
  await eventually(isOnItsWay, { withinMs: 10_000 });
  return { moved };
}

const lives = (pod: LauncherPod): boolean => pod.pids("libvirtd").length > 0;

test("the source launcher runs until SIGTERM, and the target launcher ends with the guest", async () => {
  await migrate();
  await there().virsh("resume", "vm");
  const received = openGuestConsole({
    socketPath: join(there().volume, names.CONSOLE_SOCKET),
    logPath: join(there().volume, names.CONSOLE_LOG),
  });
  await received.run("poweroff");
  received.close();
  expect(await there().exitCode(10_000)).toBe(0);
  expect(lives(here())).toBe(true);
  await here().terminate();
  expect(await here().exitCode(2000)).toBe(0);
});

test("a target launcher whose migration failed runs until SIGTERM, and ends immediately", async () => {
  const { moved } = await migrateSlowly();
  for (const qemu of there().pids("qemu")) process.kill(qemu, "SIGKILL");
  expect(await moved).toBeInstanceOf(Error);
  expect((await guest.run("report")).code).toBe(0);
  expect(lives(there())).toBe(true);
  await there().terminate();
  expect(await there().exitCode(2000)).toBe(0);
});

test("SIGTERM during a migration ends the target launcher, and the guest stays at its source", async () => {
  const { moved } = await migrateSlowly();
  await there().terminate();
  expect(await there().exitCode(2000)).toBe(0);
  expect(await moved).toBeInstanceOf(Error);
  expect((await guest.run("report")).code).toBe(0);
});

test("a target launcher whose console log lags waits for the log and ends", async () => {
  const { moved } = await migrateSlowly();
  // As if virtlogd had not written it yet.
  const log = there().log("vm");
  await eventually(() => existsSync(log), { withinMs: 10_000 });
  renameSync(log, `${log}.late`);
  const terminated = there().terminate();
  // Waits longer than its pause of 0.1 s between reads of the log; without the wait for the log it would have ended.
  const isWaiting = (): boolean =>
    there()
      .pids("sleep")
      .some((pid) => readFileSync(`/proc/${String(pid)}/cmdline`, "utf8") === "sleep\x000.1\x00");
  await eventually(isWaiting, { withinMs: 2000 });
  renameSync(`${log}.late`, log);
  await terminated;
  expect(await there().exitCode(2000)).toBe(0);
  expect(await moved).toBeInstanceOf(Error);
});

test("a source launcher that receives SIGTERM during a migration shuts its guest down", async () => {
  const { moved } = await migrateSlowly();
  await here().terminate();
  expect(await moved).toBeInstanceOf(Error);
  await guest.waitForLine(/^power button$/, { timeoutMs: 10_000, fromStart: true });
  expect(await here().exitCode(10_000)).toBe(0);
  expect(lives(there())).toBe(true);
});
