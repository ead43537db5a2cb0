// SPDX-License-Identifier: Apache-2.0
// libvirt's errors for plug and unplug during a migration, and their success afterwards.
import { spawn, type ChildProcess } from "node:child_process";
import { randomBytes } from "node:crypto";
import { closeSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isAppError } from "@patchbay/base";
import { createHypervisor } from "@patchbay/libvirt";
import { createClock } from "@patchbay/os";
import type { Hypervisor, HypervisorConnection } from "@patchbay/core/interfaces";
import { createBuiltChildStarter, eventually, openInode } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { silentLogger } from "./logger.ts";
import {
  LAUNCHER,
  makeOwnDirectory,
  qemuDomainXml,
  qemuNicXml,
  startSessionDaemon,
  type SessionDaemon,
} from "./session.ts";

/** The guest's memory content; at 1 MiB/s, libvirt's minimum, it takes a minute to send. */
const BALLAST_MIB = 64;
/** How long libvirt waits for the lock. Source: libvirt QEMU_JOB_WAIT_TIME. */
const LOCK_WAIT_MS = 30_000;

let directory = "";
let source: SessionDaemon;
let target: SessionDaemon;
let fd = -1;
let hypervisor: Hypervisor;
let migration: ChildProcess | undefined;

/** A domain whose memory takes long to send. */
function heavyDomainXml(): string {
  const ballast = join(directory, "ballast");
  writeFileSync(ballast, randomBytes(BALLAST_MIB * 1024 * 1024));
  const loader = `loader,file=${ballast},addr=0x1000000,force-raw=on`;
  return qemuDomainXml("vm1")
    .replace("<memory unit='MiB'>32<", "<memory unit='MiB'>128<")
    .replace("<domain ", "<domain xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0' ")
    .replace(
      "</domain>",
      `<qemu:commandline><qemu:arg value='-device'/><qemu:arg value='${loader}'/></qemu:commandline></domain>`,
    );
}

async function startMigration(): Promise<void> {
  const socket = join(directory, "migration.sock");
  const from = `qemu+unix:///session?socket=${source.socketPath}`;
  const to = `qemu+unix:///session?socket=${target.socketPath}`;
  const move = ["migrate", "vm1", to, `unix://${socket}`, "--live", "--p2p", "--bandwidth", "1"];
  migration = spawn("virsh", ["-c", from, ...move], { stdio: "ignore" });
  await eventually(async () => /Data processed/.test(await source.virsh("domjobinfo", "vm1")), {
    withinMs: 20_000,
  });
}

/** The failed call's error code and duration. */
async function outcomeOf(call: Promise<unknown>): Promise<{ code: string; afterMs: number }> {
  const startMs = performance.now();
  const code = await call.then(
    () => "none",
    (error: unknown) => (isAppError(error) ? error.code : String(error)),
  );
  return { code, afterMs: performance.now() - startMs };
}

function open(): Promise<HypervisorConnection> {
  return hypervisor.open({ kind: "socket", fd });
}

beforeAll(async () => {
  directory = makeOwnDirectory(mkdtempSync(join(tmpdir(), "libvirt-busy-")));
  source = await startSessionDaemon({ cacheDirectory: directory });
  target = await startSessionDaemon({ cacheDirectory: directory });
  fd = openInode(source.socketPath);
  const ports = { starter: createBuiltChildStarter(), clock: createClock(), logger: silentLogger };
  hypervisor = createHypervisor({ ...ports, identity: LAUNCHER });
});

afterAll(async () => {
  migration?.kill();
  await hypervisor.close();
  closeSync(fd);
  await source.close();
  await target.close();
  rmSync(directory, { recursive: true });
});

test("during a migration plug and unplug fail after 30 s as busy, and work afterwards", async () => {
  const one = await open();
  const other = await open();
  const third = await open();
  await one.defineDomain(heavyDomainXml());
  await one.startDomain("vm1");
  await one.attachDevice("vm1", qemuNicXml("ua-a", 1), "live");
  await startMigration();

  const outcomes = await Promise.all([
    outcomeOf(one.attachDevice("vm1", qemuNicXml("ua-b", 2), "live")),
    outcomeOf(other.detachDevice("vm1", "ua-a", "live")),
    outcomeOf(third.attachDevice("vm1", qemuNicXml("ua-b", 2), "config")),
  ]);

  expect(outcomes.map(({ code }) => code)).toEqual(Array(3).fill("LIBVIRT_MIGRATING"));
  for (const { afterMs } of outcomes) expect(afterMs).toBeGreaterThanOrEqual(LOCK_WAIT_MS - 100);
  // Our own deadline is later: the connections stayed open, and nothing happened in the background.
  expect((await other.findDomain("vm1"))?.state).toBe("running");
  expect(await third.readDomainXml("vm1", "config")).not.toContain("ua-b");
  const live = await one.readDomainXml("vm1", "live");
  expect([live.includes("ua-a"), live.includes("ua-b")]).toEqual([true, false]);
  await source.virsh("domjobabort", "vm1");
  await eventually(() => migration?.exitCode !== null, { withinMs: 20_000 });
  await one.attachDevice("vm1", qemuNicXml("ua-b", 2), "live");
  await other.detachDevice("vm1", "ua-a", "live");
  expect(await one.readDomainXml("vm1", "live")).toContain("ua-b");
}, 120_000);
