// SPDX-License-Identifier: Apache-2.0
// Sockets on this machine, with what a launcher can put in their place.
import { execFileSync } from "node:child_process";
import {
  chownSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createVhostSockets } from "@patchbay/os";
import { describeVhostSocketsContract } from "@patchbay/os/testing";
import { afterEach, beforeEach, describe, expect, test } from "vitest";

const POD = "pod-uid";
const SOCKET = { podInterfaceName: "pod1", path: "/run/patchbay/vhost-user/d/one" };
let directory = "";
let servers: Server[] = [];

const podsDir = (): string => join(directory, "pods");
const volume = (): string => join(podsDir(), POD, "volumes/kubernetes.io~empty-dir/launcher");
/** The node path, as seen from here. */
const here = (path: string): string => join(directory, path);
const SHOWN = "/run/patchbay/vhost-user-shown/d";
const sockets = (dataplaneGroup = 0) =>
  createVhostSockets({
    podsDir: podsDir(),
    runDir: here("/run"),
    selinuxDir: here("/selinux"),
    uid: 107,
    dataplaneGroup,
  });

async function listen(path: string, uid = 0, gid = 0): Promise<void> {
  const server = createServer();
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(here(path), resolve));
  chownSync(here(path), uid, gid);
}

function start(): void {
  directory = mkdtempSync(join(tmpdir(), "patchbay-vhost-"));
  mkdirSync(volume(), { recursive: true });
  for (const path of [dirname(SOCKET.path), SHOWN]) mkdirSync(here(path), { recursive: true });
}

function end(): Promise<void> {
  for (const server of servers) server.close();
  servers = [];
  rmSync(directory, { recursive: true, force: true });
  return Promise.resolve();
}

describeVhostSocketsContract("a machine", () => {
  start();
  return Promise.resolve({
    sockets: sockets(),
    put: async (path, { kind, uid }) => {
      rmSync(here(path), { force: true });
      if (kind === "socket") await listen(path, uid);
      if (kind === "file") writeFileSync(here(path), "");
      if (kind === "link") {
        await listen(`${path}-real`, uid);
        symlinkSync(here(`${path}-real`), here(path));
      }
    },
    take: (path) => {
      rmSync(here(path));
    },
    findLink: (_podUid, nic) => {
      try {
        return readlinkSync(join(volume(), `vhost-${nic}`));
      } catch {
        return undefined;
      }
    },
    close: end,
  });
});

describe("a shared socket", () => {
  beforeEach(start);
  afterEach(end);

  test("retains its owner, and the launchers' group may connect", async () => {
    await listen(SOCKET.path);
    sockets().link(POD, SOCKET);
    const { uid, gid, mode } = statSync(here(SOCKET.path));
    expect({ uid, gid, group: mode & 0o060 }).toEqual({ uid: 0, gid: 107, group: 0o060 });
  });

  test.each([
    { name: "a member of the group", uid: 901 },
    { name: "root", uid: 0 },
  ])("belongs to the dataplane's group if set, whether $name created it", async ({ uid }) => {
    await listen(SOCKET.path, uid, 900);
    for (let turn = 0; turn < 2; turn += 1) {
      sockets(900).link(POD, SOCKET);
      expect(sockets(900).observe(POD, SOCKET).state).toBe("ready");
    }
    expect(statSync(here(SOCKET.path))).toMatchObject({ uid, gid: 107 });
  });

  test.each([
    { name: "root", uid: 0, gid: 0 },
    { name: "another group", uid: 901, gid: 902 },
  ])("rejects one owned by $name and leaves it unchanged", async ({ uid, gid }) => {
    await listen(SOCKET.path, uid, gid);
    expect(sockets(900).observe(POD, SOCKET)).toMatchObject({
      state: "refused",
      reason: `its group is ${String(gid)}, not the dataplane's (900): it was made elsewhere, or by somebody else`,
    });
    expect(() => {
      sockets(900).link(POD, SOCKET);
    }).toThrow("not the dataplane's");
    expect(statSync(here(SOCKET.path))).toMatchObject({ uid, gid });
    expect(readdirSync(here(SHOWN))).toEqual([]);
  });

  test("is shared as the same file until the next one replaces it", async () => {
    const inodes = (): readonly number[] =>
      [SOCKET.path, `${SHOWN}/one`].map((path) => statSync(here(path)).ino);
    for (let turn = 0; turn < 2; turn += 1) {
      rmSync(here(SOCKET.path), { force: true });
      await listen(SOCKET.path);
      sockets().link(POD, SOCKET);
      const [made, shown] = inodes();
      expect(shown).toBe(made);
    }
    expect(readdirSync(here(SHOWN))).toEqual(["one"]);
  });

  test("removes the remains of sharing it", async () => {
    await listen(SOCKET.path);
    writeFileSync(here(`${SHOWN}/.one`), "");
    sockets().link(POD, SOCKET);
    expect(readdirSync(here(SHOWN))).toEqual(["one"]);
  });

  test("rejects a directory without a launcher and changes nothing in it", async () => {
    rmSync(here(SHOWN), { recursive: true });
    await listen(SOCKET.path);
    expect(sockets().observe(POD, SOCKET)).toMatchObject({
      state: "refused",
      reason: "its directory is no pod's",
    });
    expect(() => {
      sockets().link(POD, SOCKET);
    }).toThrow("its directory is no pod's");
    expect(statSync(here(SOCKET.path)).gid).toBe(0);
  });

  test("has the SELinux label of container files", async () => {
    mkdirSync(here("/selinux"));
    writeFileSync(here("/selinux/enforce"), "1");
    await listen(SOCKET.path);
    sockets().link(POD, SOCKET);
    const argv = ["-c", "%C", here(`${SHOWN}/one`)];
    expect(execFileSync("stat", argv, { encoding: "utf8" }).trim()).toBe(
      "system_u:object_r:container_file_t:s0",
    );
  });

  test("rejects a directory that is a link to outside", async () => {
    mkdirSync(here("/elsewhere"));
    await listen("/elsewhere/one");
    rmSync(dirname(here(SOCKET.path)), { recursive: true });
    symlinkSync(here("/elsewhere"), dirname(here(SOCKET.path)));
    expect(sockets().observe(POD, SOCKET)).toMatchObject({ state: "refused" });
    expect(() => {
      sockets().link(POD, SOCKET);
    }).toThrow();
    expect(statSync(here("/elsewhere/one")).gid).toBe(0);
  });

  test("rejects a path elsewhere", () => {
    const socket = { ...SOCKET, path: "/run/other/one" };
    expect(() => sockets().observe(POD, socket)).toThrow(
      "it is not below /run/patchbay/vhost-user",
    );
  });

  test("replaces what a launcher put in place of its link, and changes nothing at its target", async () => {
    await listen(SOCKET.path);
    const outside = here("/outside");
    mkdirSync(outside);
    symlinkSync(outside, join(volume(), "vhost-pod1"));
    symlinkSync(outside, join(volume(), "vhost-pod1.new"));
    expect(sockets().observe(POD, SOCKET).state).toBe("found");
    sockets().link(POD, SOCKET);
    expect(readlinkSync(join(volume(), "vhost-pod1"))).toBe(SOCKET.path);
    expect(statSync(outside).isDirectory()).toBe(true);
  });

  test("creates none in a volume that is a link to outside", async () => {
    await listen(SOCKET.path);
    const outside = here("/outside");
    mkdirSync(outside);
    rmSync(volume(), { recursive: true });
    symlinkSync(outside, volume());
    expect(() => {
      sockets().link(POD, SOCKET);
    }).toThrow();
    expect(() => readlinkSync(join(outside, "vhost-pod1"))).toThrow("ENOENT");
  });
});
