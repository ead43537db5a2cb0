// SPDX-License-Identifier: Apache-2.0
// A guest migrates between two launchers' libvirts, connected only through their nodes' relays.
import { randomBytes } from "node:crypto";
import { execFileSync } from "node:child_process";
import { chownSync, closeSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createHypervisor } from "@patchbay/libvirt";
import { createClock } from "@patchbay/os";
import { UNLIMITED_DOWNTIME_MS } from "@patchbay/core/migration";
import type { Hypervisor, HypervisorConnection, Migration } from "@patchbay/core/interfaces";
import type { RelayMessage } from "@patchbay/virt-handler/testing";
import { createBuiltChildStarter, openInode } from "@patchbay/support";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { silentLogger } from "./logger.ts";
import { PEER_SOCKET, RelayBench, SOCKETS, type Change } from "./relay-bench.ts";
import {
  heavyDomainXml,
  LAUNCHER,
  LAUNCHER_MOUNT,
  makeOwnDirectory,
  startSessionDaemon,
  type SessionDaemon,
} from "./session.ts";

/** At 1 MiB/s, libvirt's minimum, it takes a while to send. */
const BALLAST_MIB = 12;
const WAYS = {
  peerUri: `qemu+unix:///session?socket=${LAUNCHER_MOUNT}/${PEER_SOCKET}`,
  memoryUri: `unix://${LAUNCHER_MOUNT}/${SOCKETS.memory}`,
};

const DISK = "disk.qcow2";

let cacheDirectory = "";
let hypervisor: Hypervisor;
let bench: RelayBench;
let daemons: readonly SessionDaemon[];
let descriptors: readonly number[];
let source: HypervisorConnection;
let steering: HypervisorConnection;
let target: HypervisorConnection;
let xml = "";

beforeAll(() => {
  cacheDirectory = makeOwnDirectory(mkdtempSync(join(tmpdir(), "session-cache-")));
  const ports = { starter: createBuiltChildStarter(), clock: createClock(), logger: silentLogger };
  hypervisor = createHypervisor({ ...ports, identity: LAUNCHER });
});

afterAll(async () => {
  await hypervisor.close();
  rmSync(cacheDirectory, { recursive: true });
});

beforeEach(async () => {
  bench = await RelayBench.make();
  daemons = await Promise.all(
    [bench.sourceDirectory, bench.targetDirectory].map((directory) =>
      startSessionDaemon({
        cacheDirectory,
        runDirectory: directory,
        launcherDirectory: directory,
      }),
    ),
  );
  descriptors = daemons.map(({ socketPath }) => openInode(socketPath));
  const [here = -1, there = -1] = descriptors;
  const open = (fd: number) => hypervisor.open({ kind: "socket", fd });
  [source, steering, target] = await Promise.all([open(here), open(here), open(there)]);
  const ballast = join(bench.directory, "ballast");
  writeFileSync(ballast, randomBytes(BALLAST_MIB * 1024 * 1024));
  xml = heavyDomainXml("vm1", ballast, 1);
});

async function start(definition = xml): Promise<void> {
  await source.defineDomain(definition);
  await source.startDomain("vm1");
}

afterEach(async () => {
  descriptors.forEach(closeSync);
  await Promise.all(daemons.map((daemon) => daemon.close()));
  await bench.close();
});

async function startRelays(change: Change = {}) {
  const receiving = await bench.receive(change);
  const words: RelayMessage[] = [];
  receiving.onMessage((message) => words.push(message));
  return { receiving, words, sending: await bench.send(receiving, change) };
}

/** The result of a migration; undefined: success. */
async function move(more: Partial<Migration> = {}): Promise<unknown> {
  const moving = await source.readDomainXml("vm1", "moving");
  const liveXml = moving.replaceAll("tapc1", "tapc2");
  const requested = { ...WAYS, liveXml, ...more };
  return source.migrateDomain("vm1", requested).catch((error: unknown) => error);
}

/** A disk of each launcher over a shared backing file; part of the first one was written. */
function makeDisks(): readonly string[] {
  const base = join(bench.directory, "base");
  execFileSync("qemu-img", ["create", "-q", "-f", "raw", base, "8M"]);
  const disks = [bench.sourceDirectory, bench.targetDirectory].map((at) => join(at, DISK));
  for (const disk of disks) {
    execFileSync("qemu-img", ["create", "-q", "-f", "qcow2", "-b", base, "-F", "raw", disk]);
  }
  execFileSync("qemu-io", ["-c", "write -P 7 1M 2M", disks[0] ?? ""]);
  for (const path of [base, ...disks]) chownSync(path, LAUNCHER.uid, LAUNCHER.gid);
  return disks;
}

const DISK_XML = `<disk type='file' device='disk'><driver name='qemu' type='qcow2'/>
  <source file='${LAUNCHER_MOUNT}/${DISK}'/><target dev='vda' bus='virtio'/></disk>`;

async function lasting(): Promise<void> {
  await expect.poll(() => steering.readJob("vm1")).toMatchObject({ state: "running" });
}

test("a guest migrates, its node reports it off, and it resumes; the socket files are removed", async () => {
  await start();
  const { sending, words: text } = await startRelays();
  expect(await move()).toBeUndefined();
  expect(text).not.toContainEqual({ kind: "gone" });
  expect(await source.findDomain("vm1")).toMatchObject({ state: "shutoff", move: "left" });
  await sending.reportGone();
  await sending.reportGone();
  expect(text).toContainEqual({ kind: "gone" });
  await target.resumeDomain("vm1");
  expect((await target.findDomain("vm1"))?.state).toBe("running");
  expect(readdirSync(bench.sourceDirectory).filter((name) => name.startsWith("migration"))).toEqual(
    [],
  );
});

test("migrates the content of the launcher's own disk over a separate channel", async () => {
  const disks = makeDisks();
  await start(xml.replace("<interface ", `${DISK_XML}<interface `));
  await startRelays({ connections: { libvirt: 1, memory: 1, disks: 1 } });
  const uri = `unix://${LAUNCHER_MOUNT}/${SOCKETS.disks}`;
  expect(await move({ disks: { uri, targets: ["vda"] } })).toBeUndefined();
  await target.destroyDomain("vm1");
  expect(execFileSync("qemu-img", ["compare", ...disks], { encoding: "utf8" })).toMatch(
    /identical/,
  );
  const check = ["-r", "-c", "read -P 7 1M 2M", disks[1] ?? ""];
  expect(execFileSync("qemu-io", check, { encoding: "utf8" })).not.toMatch(/failed/);
});

test("a disk that the target does not request fails the migration, and the guest stays", async () => {
  makeDisks();
  await start(xml.replace("<interface ", `${DISK_XML}<interface `));
  await startRelays();
  expect(await move()).toMatchObject({ code: "LIBVIRT_REFUSED", details: { number: 81 } });
  expect((await source.findDomain("vm1"))?.state).toBe("running");
});

test.each([
  {
    who: "the source's relay ends",
    strike: (pids: readonly number[]) => process.kill(pids[1] ?? 0, "SIGKILL"),
  },
  {
    who: "the target's relay ends",
    strike: (pids: readonly number[]) => process.kill(pids[0] ?? 0, "SIGKILL"),
  },
  {
    who: "the target's relay hangs",
    strike: (pids: readonly number[]) => process.kill(pids[0] ?? 0, "SIGSTOP"),
  },
])("when $who during the migration, the guest stays at its source", async ({ strike }) => {
  await start();
  await startRelays({ idleTimeoutMs: 3000 });
  await steering.setMaxSpeed("vm1", 1);
  const moved = move();
  await lasting();
  strike(bench.pids);
  expect(await moved).toMatchObject({ name: "AppError" });
  expect((await steering.findDomain("vm1"))?.state).toBe("running");
});

test("a slow migration completes immediately when it may pause the guest", async () => {
  await start();
  await startRelays();
  await steering.setMaxSpeed("vm1", 1);
  const moved = move();
  await lasting();
  await steering.setMaxDowntime("vm1", UNLIMITED_DOWNTIME_MS);
  expect(await moved).toBeUndefined();
  expect((await target.findDomain("vm1"))?.state).toBe("paused");
});
