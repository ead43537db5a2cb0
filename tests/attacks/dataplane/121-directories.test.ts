// SPDX-License-Identifier: Apache-2.0
// A hostile root dataplane with the directories of all pods of its node, and a pod that has ended.
import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import {
  chownSync,
  closeSync,
  existsSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer, type Server } from "node:net";
import { join } from "node:path";
import { eventually } from "@patchbay/support";
import { afterEach, beforeEach, expect, test } from "vitest";
import { SocketsNode } from "../../contract/device-plugin/sockets-node.ts";

const TIMEOUT = { withinMs: 20_000 };
const ID = "sockets-0";
const POD = "pod-uid";
const SOCKET = { podInterfaceName: "pod1", path: `/run/patchbay/vhost-user/${ID}/one.sock` };
const LAUNCHER = 107;

let node: SocketsNode;
let servers: Server[];
let swapper: ChildProcess | undefined;

beforeEach(async () => {
  node = new SocketsNode();
  servers = [];
  mkdirSync(node.here(`/pods/${POD}/volumes/kubernetes.io~empty-dir/launcher`), {
    recursive: true,
  });
  mkdirSync(node.here("/root"));
  writeFileSync(node.here("/root/secret"), "", { mode: 0o600 });
  await listen(node.here("/root/docker.sock"));
  await node.start();
  await node.admit("victim", ID);
});
afterEach(async () => {
  swapper?.kill("SIGKILL");
  swapper = undefined;
  for (const server of servers) server.close();
  await node.close();
});

async function listen(path: string): Promise<void> {
  const server = createServer();
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(path, resolve));
}

/** The attacker's target is unchanged. */
function expectUntouched(): void {
  expect(readdirSync(node.here("/root")).toSorted()).toEqual(["docker.sock", "secret"]);
  for (const name of ["", "secret", "docker.sock"]) {
    expect(statSync(node.here(`/root/${name}`))).toMatchObject({ uid: 0, gid: 0 });
  }
  expect(statSync(node.here("/root/secret")).mode & 0o777).toBe(0o600);
}

function link(): void {
  node.sockets.link(POD, SOCKET);
}

test("attack 121: rejects a link to the node in place of a pod's directory before the launcher mounts it", async () => {
  renameSync(node.madeIn(ID), node.madeIn("aside"));
  symlinkSync(node.here("/root"), node.madeIn(ID));
  // The runtime mounts no directory that the dataplane can change.
  expect(lstatSync(node.shownOf(ID)).isDirectory()).toBe(true);
  expect(readdirSync(node.shownOf(ID))).toEqual([]);
  const path = `/run/patchbay/vhost-user/${ID}/docker.sock`;
  expect(node.sockets.observe(POD, { ...SOCKET, path })).toMatchObject({ state: "refused" });
  expect(() => {
    node.sockets.link(POD, { ...SOCKET, path });
  }).toThrow();
  // Assigned again and swept.
  node.forget("victim");
  await node.admit("next", ID);
  expect(lstatSync(node.madeIn(ID)).isDirectory()).toBe(true);
  rmSync(node.madeIn(ID), { recursive: true });
  symlinkSync(node.here("/root"), node.madeIn(ID));
  node.forget("next");
  const isGone = (path: string): boolean =>
    lstatSync(path, { throwIfNoEntry: false }) === undefined;
  await eventually(() => isGone(node.shownOf(ID)) && isGone(node.madeIn(ID)), TIMEOUT);
  expectUntouched();
});

const BAD: readonly { readonly name: string; readonly put: (path: string) => unknown }[] = [
  {
    name: "a file",
    put: (path) => {
      writeFileSync(path, "");
    },
  },
  {
    name: "a directory",
    put: (path) => {
      mkdirSync(path);
    },
  },
  { name: "a FIFO", put: (path) => execFileSync("mkfifo", [path]) },
  {
    name: "a link to another pod's socket",
    put: (path) => {
      symlinkSync(node.here("/root/docker.sock"), path);
    },
  },
  {
    name: "a socket of the launchers' user",
    put: async (path) => {
      await listen(path);
      chownSync(path, LAUNCHER, LAUNCHER);
    },
  },
];

test.each(BAD)("attack 122: rejects $name in place of a socket", async ({ put }) => {
  await put(node.here(SOCKET.path));
  const observed = node.sockets.observe(POD, SOCKET);
  expect(observed).toMatchObject({
    state: "refused",
    reason: expect.stringMatching(/./) as string,
  });
  expect(link).toThrow();
  expect(readdirSync(node.shownOf(ID))).toEqual([]);
  expectUntouched();
});

test("attack 122: a socket that alternates between a socket and a link to another pod's socket is not followed", async () => {
  await listen(node.here("/run/good.sock"));
  const script = `while :; do ln -s "$1" "$3.a" && mv -T "$3.a" "$3"; ln "$2" "$3.b" && mv -T "$3.b" "$3"; done`;
  const paths = ["/root/docker.sock", "/run/good.sock", SOCKET.path].map((path) => node.here(path));
  swapper = spawn("sh", ["-c", script, "sh", ...paths], { stdio: "ignore" });
  await eventually(() => existsSync(node.here(SOCKET.path)), TIMEOUT);
  let shown = 0;
  let refused = 0;
  await eventually(() => {
    try {
      link();
      shown += 1;
    } catch {
      refused += 1;
    }
    for (const name of readdirSync(node.shownOf(ID))) {
      expect(lstatSync(join(node.shownOf(ID), name)).isSocket()).toBe(true);
    }
    return shown > 3 && refused > 3;
  }, TIMEOUT);
  expectUntouched();
});

test("attack 123: a pod that keeps its directory open after its end cannot see the next pod's files", async () => {
  const retained = openSync(node.shownOf(ID), "r");
  try {
    node.forget("victim");
    await eventually(() => !existsSync(node.shownOf(ID)), TIMEOUT);
    await node.admit("next", ID);
    await listen(node.here(SOCKET.path));
    link();
    expect(readdirSync(node.shownOf(ID))).toEqual(["one.sock"]);
    expect(readdirSync(`/proc/self/fd/${String(retained)}`)).toEqual([]);
  } finally {
    closeSync(retained);
  }
});
