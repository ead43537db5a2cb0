// SPDX-License-Identifier: Apache-2.0
// Two guests with vhost-user NICs of two queue pairs each and a real dataplane. libvirt then requests interrupt
// vectors, which crash an emulated QEMU; only this test removes them from libvirt's XML.
import { closeSync, copyFileSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { printNic } from "@patchbay/domain";
import { createHypervisor } from "@patchbay/libvirt";
import { createClock, createVhostDirectories, createVhostSockets } from "@patchbay/os";
import type { Hypervisor } from "@patchbay/core/interfaces";
import {
  createBuiltChildStarter,
  aVmi,
  KERNEL_ARGS,
  openGuestConsole,
  needTestpmd,
  Testpmd,
  type GuestConsole,
  openInode,
} from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { makeGuestImage } from "../guest-image.ts";
import { definitionOf, makePlaces, placeOf } from "./definition.ts";
import { silentLogger } from "./logger.ts";
import { LAUNCHER, makeOwnDirectory, startSessionDaemon, type SessionDaemon } from "./session.ts";

needTestpmd();

const QUEUES = 2;
const ALIAS = "ua-fast";
const POD = "uid";
const ID = `contract-queues-${String(process.pid)}`;
const DIRECTORY = `/run/patchbay/vhost-user/${ID}`;
/** QEMU runs without a container here and opens the dataplane's directory itself. */
const PLACES = {
  runDir: "/run",
  selinuxDir: "/sys/fs/selinux",
  uid: LAUNCHER.uid,
};
const BOOT_MS = 240_000;
const PING = { timeoutMs: 60_000 };
/** Source: libvirt drvqemu, "Overriding properties of QEMU devices". */
const WITHOUT_VECTORS = `<qemu:override><qemu:device alias="${ALIAS}"><qemu:frontend>
  <qemu:property name="vectors" type="unsigned" value="0"/></qemu:frontend></qemu:device></qemu:override>`;

let base = "";
let daemon: SessionDaemon;
let dataplane: Testpmd;
let hypervisor: Hypervisor;
let fd: number;
const guests: GuestConsole[] = [];

const nicOf = (number: number): string => `pod${String(number)}`;
const socketOf = (number: number): string => `${DIRECTORY}/${nicOf(number)}.sock`;

/** A guest of that number below its own directory. */
function definition(at: string, number: number): string {
  const container = { image: "guest", kernelPath: "/vmlinux", initrdPath: "/initrd" };
  const domain = {
    memory: { guest: "96Mi" },
    cpu: { cores: QUEUES },
    resources: { limits: { "vhost-user.patchbay.io/sockets": "1" } },
    firmware: { kernelBoot: { kernelArgs: KERNEL_ARGS, container } },
  };
  const vmi = aVmi();
  const metadata = { ...vmi.metadata, name: `vm${String(number)}`, uid: `uid-${String(number)}` };
  const nic = printNic({
    alias: ALIAS,
    mac: `02:00:00:00:00:0${String(number)}`,
    model: "virtio",
    mtu: 0,
    linkUp: true,
    queues: QUEUES,
    pciAddress: { bus: 2, slot: 0, function: 0 },
    socketPath: join(
      base,
      `${POD}/volumes/kubernetes.io~empty-dir/launcher/vhost-${nicOf(number)}`,
    ),
  });
  return definitionOf(at, { ...vmi, metadata, spec: { domain } })
    .replace("</devices>", `${nic}</devices>`)
    .replace("</domain>", `${WITHOUT_VECTORS}</domain>`);
}

/** Resolves when its kernel has started; the guest reports the rest. */
async function start(number: number): Promise<void> {
  const at = join(base, `guest-${String(number)}`);
  mkdirSync(at);
  makePlaces(at);
  for (const file of ["vmlinux", "initrd"]) {
    copyFileSync(join(makeGuestImage(), file), join(placeOf(at, "/run/kernel-boot"), file));
  }
  const launcher = placeOf(at, "/run/launcher");
  const connection = await hypervisor.open({ kind: "socket", fd });
  await connection.defineDomain(definition(at, number));
  await connection.startDomain(`default_vm${String(number)}`, "running");
  const socketPath = join(launcher, "serial0.sock");
  guests.push(openGuestConsole({ socketPath, logPath: join(launcher, "serial0.log") }));
}

beforeAll(async () => {
  base = makeOwnDirectory(mkdtempSync(join(tmpdir(), "vhost-queues-")));
  mkdirSync(join(base, `${POD}/volumes/kubernetes.io~empty-dir/launcher`), { recursive: true });
  await createVhostDirectories({ ...PLACES, dataplaneGroup: LAUNCHER.gid }).make(ID);
  daemon = await startSessionDaemon({ cacheDirectory: makeOwnDirectory(join(base, "cache")) });
  fd = openInode(daemon.socketPath);
  const [starter, clock] = [createBuiltChildStarter(), createClock()];
  hypervisor = createHypervisor({ starter, clock, logger: silentLogger, identity: LAUNCHER });
  dataplane = await Testpmd.start([socketOf(1), socketOf(2)], QUEUES, { isAsked: true });
  const sockets = createVhostSockets({ ...PLACES, podsDir: base });
  for (const number of [1, 2]) {
    sockets.link(POD, { podInterfaceName: nicOf(number), path: socketOf(number) });
    await start(number);
  }
}, BOOT_MS);

afterAll(async () => {
  for (const guest of guests) guest.close();
  await hypervisor.close();
  closeSync(fd);
  await daemon.close();
  await dataplane.stop();
  await createVhostDirectories(PLACES).remove(ID);
  rmSync(base, { recursive: true });
});

test("each guest has its NIC with two queue pairs", { timeout: BOOT_MS }, async () => {
  for (const guest of guests) {
    await guest.waitForLine(/^guest ready/, { timeoutMs: BOOT_MS, fromStart: true });
    const { lines } = await guest.run("report", PING);
    expect(lines.join("\n")).toMatch(new RegExp(` carrier 1 queues ${String(QUEUES)} `));
  }
});

async function expectReplies(): Promise<void> {
  for (const [index, guest] of guests.entries()) {
    const other = `10.99.7.${String(2 - index)}`;
    const { lines } = await guest.run(`ping ${other} 10 200 56`, PING);
    const received = Number(/received (\d+)/.exec(lines.join("\n"))?.[1] ?? "0");
    // The first may be lost during address resolution.
    expect(received).toBeGreaterThan(7);
  }
}

test("the guests reach each other", { timeout: BOOT_MS }, async () => {
  for (const [index, guest] of guests.entries()) {
    await guest.run(`address eth0 10.99.7.${String(index + 1)}/24`, PING);
  }
  await dataplane.forwards(expectReplies);
});
