// SPDX-License-Identifier: Apache-2.0
// vhost-user NICs from our XML with libvirt, QEMU and a real dataplane. Nothing boots: QEMU connects through the
// launcher's path of the socket as the launchers' user.
import {
  chmodSync,
  chownSync,
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  statSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freeAddresses, printNic, type PciAddress } from "@patchbay/domain";
import { parseDomain } from "@patchbay/domain/parse";
import { createHypervisor } from "@patchbay/libvirt";
import { createClock, createVhostDirectories, createVhostSockets } from "@patchbay/os";
import type { Hypervisor, HypervisorConnection } from "@patchbay/core/interfaces";
import {
  createBuiltChildStarter,
  aVmi,
  eventually,
  needTestpmd,
  Testpmd,
  openInode,
} from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { definitionOf, makePlaces } from "./definition.ts";
import { silentLogger } from "./logger.ts";
import { LAUNCHER, makeOwnDirectory, startSessionDaemon, type SessionDaemon } from "./session.ts";

needTestpmd();

const DOMAIN = "default_vm1";
const ALIAS = "ua-fast";
const POD = "uid";
const ID = `contract-${String(process.pid)}`;
/** A single directory for dataplane and launcher, because QEMU runs without a container here. */
const DIRECTORY = `/run/patchbay/vhost-user/${ID}`;
const PLACES = { runDir: "/run", selinuxDir: "/sys/fs/selinux", uid: LAUNCHER.uid };
const directories = createVhostDirectories(PLACES);
/** An unprivileged dataplane with unused ids. */
const MEMBER = { uid: 61_017, gid: 61_018 };
const SOCKET = { podInterfaceName: "pod1", path: `${DIRECTORY}/pod1.sock` };

let base = "";
let volume = "";
let daemon: SessionDaemon;
let dataplane: Testpmd | undefined;
let hypervisor: Hypervisor;
let connection: HypervisorConnection;
let fd: number;
let pciAddress: PciAddress;

function nic(linkUp = true): string {
  return printNic({
    alias: ALIAS,
    mac: "02:00:00:00:00:01",
    model: "virtio",
    mtu: 0,
    linkUp,
    queues: 2,
    pciAddress,
    socketPath: join(volume, "vhost-pod1"),
  });
}

async function live() {
  const parsed = parseDomain(await connection.readDomainXml(DOMAIN, "live"));
  if (!parsed.ok) throw new Error(parsed.reason);
  return parsed.domain;
}

beforeAll(async () => {
  base = makeOwnDirectory(mkdtempSync(join(tmpdir(), "vhost-")));
  volume = join(base, `${POD}/volumes/kubernetes.io~empty-dir/launcher`);
  mkdirSync(volume, { recursive: true });
  await directories.make(ID);
  chownSync(DIRECTORY, 0, LAUNCHER.gid);
  daemon = await startSessionDaemon({ cacheDirectory: makeOwnDirectory(join(base, "cache")) });
  fd = openInode(daemon.socketPath);
  const [starter, clock] = [createBuiltChildStarter(), createClock()];
  hypervisor = createHypervisor({ starter, clock, logger: silentLogger, identity: LAUNCHER });
  connection = await hypervisor.open({ kind: "socket", fd });
  const limits = { "vhost-user.patchbay.io/sockets": "1" };
  const domain = { memory: { guest: "64Mi" }, cpu: { cores: 2 }, resources: { limits } };
  makePlaces(base);
  await connection.defineDomain(definitionOf(base, { ...aVmi(), spec: { domain } }));
  await connection.startDomain(DOMAIN, "paused");
  const [free] = freeAddresses(await live(), "virtio");
  if (free === undefined) throw new Error("there is no port");
  pciAddress = free;
}, 120_000);

afterAll(async () => {
  await dataplane?.stop();
  await hypervisor.close();
  closeSync(fd);
  await daemon.close();
  await directories.remove(ID);
  rmSync(base, { recursive: true });
});

test("the domain reports its support of vhost-user NICs", async () => {
  const { sharesMemory, hasNoNicVectors } = await live();
  expect({ sharesMemory, hasNoNicVectors }).toEqual({ sharesMemory: true, hasNoNicVectors: true });
});

test("rejects a device whose dataplane is down immediately", async () => {
  await expect(connection.attachDevice(DOMAIN, nic(), "live")).rejects.toMatchObject({
    code: "LIBVIRT_REFUSED",
  });
});

test("the launcher can use a shared root socket, and the device matches its XML", async () => {
  dataplane = await Testpmd.start([SOCKET.path], 2);
  const sockets = createVhostSockets({ ...PLACES, podsDir: base });
  sockets.link(POD, SOCKET);
  expect(sockets.observe(POD, SOCKET).state).toBe("ready");
  await connection.attachDevice(DOMAIN, nic(), "live");
  const { nics } = await live();
  expect(nics).toMatchObject([
    { alias: ALIAS, socketPath: join(volume, "vhost-pod1"), queues: 2, linkUp: true },
  ]);
});

test("rejects a change of the link state", async () => {
  await expect(connection.updateDevice(DOMAIN, nic(false), "live")).rejects.toMatchObject({
    code: "LIBVIRT_UNSUPPORTED",
  });
});

test("detaches the NIC, also when the dataplane is down", async () => {
  await dataplane?.stop();
  dataplane = undefined;
  await connection.detachDevice(DOMAIN, ALIAS, "live");
  // No guest runs; QEMU completes the requests at a reset.
  await daemon.virsh("reset", DOMAIN);
  await eventually(async () => (await live()).nics.length === 0, { withinMs: 30_000 });
});

test("an unprivileged dataplane serves the NIC through its group and removes its socket", async () => {
  const places = { ...PLACES, dataplaneGroup: MEMBER.gid };
  await createVhostDirectories(places).make(ID);
  chmodSync(DIRECTORY, 0o2771); // QEMU has no mount of its own here and must traverse
  dataplane = await Testpmd.start([SOCKET.path], 2, { user: MEMBER });
  expect(statSync(SOCKET.path)).toMatchObject(MEMBER);
  const sockets = createVhostSockets({ ...places, podsDir: base });
  sockets.link(POD, SOCKET);
  expect(sockets.observe(POD, SOCKET).state).toBe("ready");
  expect(statSync(SOCKET.path)).toMatchObject({ uid: MEMBER.uid, gid: LAUNCHER.gid });
  await connection.attachDevice(DOMAIN, nic(), "live");
  expect((await live()).nics).toMatchObject([{ alias: ALIAS, queues: 2, linkUp: true }]);
  await dataplane.stop();
  dataplane = undefined;
  expect(existsSync(SOCKET.path)).toBe(false);
});
