// SPDX-License-Identifier: Apache-2.0
// Files that a launcher may put in place of its libvirt socket, and changes of the directories above it.
import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  chownSync,
  fstatSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { isAppError } from "@patchbay/base";
import { createLaunchers } from "@patchbay/os";
import type { Launchers } from "@patchbay/core/interfaces";
import { afterEach, beforeEach, expect, test } from "vitest";
import { AttackedNode, LAUNCHER } from "../false-libvirt/false-libvirt.ts";

const NAMES = { namespace: "default", name: "virt-launcher-vm1" };
const POD = { uid: "0a1b2c3d-0000-4000-8000-000000000018", ...NAMES };
/** Least number of opens while the directories change, and the limit until a change is observed. */
const OPENS = 300;
const OPENS_AT_MOST = 20_000;
/**
 * Changes without a pause, and the length of each pause, milliseconds; without pauses a busy machine never opens it.
 */
const SWAPS_AT_ONCE = 200;
const CALM_MS = 2;

let base = "";
let socketPath = "";
let netnsInode = "1";
let launchers: Launchers;
let processes: ChildProcess[] = [];

beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), "sockets-"));
  chmodSync(base, 0o755);
  const volume = join(base, "pods", POD.uid, "volumes/kubernetes.io~empty-dir/launcher");
  socketPath = join(volume, "libvirt/libvirt-sock");
  makeOwnDirectory(dirname(socketPath));
  launchers = createLaunchers({
    podsDir: join(base, "pods"),
    sandboxes: {
      find: (uid) =>
        Promise.resolve({ id: "sandbox", podUid: uid, pod: NAMES, netnsPath: "", netnsInode }),
    },
    uid: LAUNCHER.uid,
    hostNetnsInode: inodeOf("/proc/self/ns/net"),
  });
  processes = [];
});

afterEach(async () => {
  for (const child of processes) {
    const ended = once(child, "exit");
    if (child.kill("SIGKILL")) await ended;
  }
  rmSync(base, { recursive: true });
});

function inodeOf(path: string): string {
  return statSync(path, { bigint: true }).ino.toString();
}

function makeOwnDirectory(path: string): void {
  mkdirSync(path, { recursive: true });
  chownSync(path, LAUNCHER.uid, LAUNCHER.gid);
}

/** Runs JavaScript as the launchers' user in its own network namespace; the script reports when it continues. */
async function run(program: string, cwd: string): Promise<void> {
  const user = ["--reuid", String(LAUNCHER.uid), "--regid", String(LAUNCHER.gid), "--clear-groups"];
  const argv = ["--net", "setpriv", ...user, process.execPath, "-e", program];
  const child = spawn("unshare", argv, { cwd, stdio: ["ignore", "pipe", "inherit"] });
  processes.push(child);
  await once(child.stdout, "data");
  netnsInode = inodeOf(`/proc/${String(child.pid)}/ns/net`);
}

const LISTEN = `require("node:net").createServer(() => {})
  .listen("libvirt-sock", () => process.stdout.write("listening"));`;

test.each([
  {
    what: "a symbolic link",
    put: () => {
      symlinkSync("/run/host.sock", socketPath);
    },
  },
  {
    what: "a FIFO",
    put: () => {
      execFileSync("mkfifo", [socketPath]);
    },
  },
  {
    what: "a directory",
    put: () => {
      mkdirSync(socketPath);
    },
  },
  {
    what: "a file",
    put: () => {
      writeFileSync(socketPath, "");
    },
  },
])("attack 18: rejects $what in place of the socket immediately", async ({ put }) => {
  put();
  await expect(launchers.open(POD)).rejects.toMatchObject({ code: "OS_PATH_REFUSED" });
});

test("attack 18: does not connect to a datagram socket", async () => {
  const bind = `use Socket; $| = 1; socket(my $s, PF_UNIX, SOCK_DGRAM, 0) or die $!;
    bind($s, pack_sockaddr_un("libvirt-sock")) or die $!; print "bound"; sleep 60;`;
  const child = spawn("perl", ["-e", bind], {
    cwd: dirname(socketPath),
    stdio: ["ignore", "pipe", "inherit"],
  });
  processes.push(child);
  await once(child.stdout, "data");
  await expect(launchers.open(POD)).rejects.toMatchObject({ code: "LAUNCHER_UNREACHABLE" });
});

test("attack 19: directories that are replaced continuously never lead to another launcher's socket", async () => {
  const elsewhere = join(base, "elsewhere");
  makeOwnDirectory(elsewhere);
  await run(LISTEN, elsewhere);
  await run(LISTEN, dirname(socketPath));
  const own = inodeOf(socketPath);
  const volume = dirname(dirname(socketPath));
  chownSync(volume, LAUNCHER.uid, LAUNCHER.gid);
  const swap = `const fs = require("node:fs");
    fs.symlinkSync(${JSON.stringify(elsewhere)}, "link");
    process.stdout.write("swapping");
    const wait = new Int32Array(new SharedArrayBuffer(4));
    for (let turn = 1; ; turn += 1) {
      fs.renameSync("libvirt", "own"); fs.renameSync("link", "libvirt");
      fs.renameSync("libvirt", "link"); fs.renameSync("own", "libvirt");
      if (turn % ${String(SWAPS_AT_ONCE)} === 0) Atomics.wait(wait, 0, 0, ${String(CALM_MS)});
    }`;
  const netns = netnsInode;
  await run(swap, volume);
  netnsInode = netns;
  const outcomes = new Set<string>();
  for (let turn = 0; turn < OPENS || (outcomes.size < 2 && turn < OPENS_AT_MOST); turn += 1) {
    try {
      const launcher = await launchers.open(POD);
      outcomes.add(fstatSync(launcher.socketFd, { bigint: true }).ino.toString());
      launcher.close();
    } catch (error) {
      outcomes.add(isAppError(error) ? error.code : String(error));
    }
  }
  const allowed = [own, "OS_PATH_REFUSED", "LAUNCHER_UNREACHABLE", "LAUNCHER_NOT_LISTENING"];
  expect([...outcomes].filter((outcome) => !allowed.includes(outcome))).toEqual([]);
  expect(outcomes).toContain(own);
  expect(outcomes.size, "how many outcomes there were").toBeGreaterThan(1);
});

test("attack 20: keeps using a socket that is renamed during a session", async () => {
  const node = new AttackedNode();
  try {
    const address = await node.daemons.start("honest");
    const connection = await node.hypervisor.open(address);
    node.daemons.renameSockets();
    expect((await connection.findDomain("default_vm1"))?.state).toBe("running");
    const again = await node.hypervisor.open(address);
    expect((await again.findDomain("default_vm1"))?.state).toBe("running");
  } finally {
    await node.close();
  }
});
