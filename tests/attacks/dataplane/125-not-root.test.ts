// SPDX-License-Identifier: Apache-2.0
// A hostile unprivileged dataplane that can create sockets in all pods' directories by its group, and a hostile
// launcher.
import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import {
  chmodSync,
  chownSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  statSync,
} from "node:fs";
import { createServer, type Server } from "node:net";
import { eventually } from "@patchbay/support";
import { afterEach, beforeEach, expect, test } from "vitest";
import { SocketsNode } from "../../contract/device-plugin/sockets-node.ts";

const TIMEOUT = { withinMs: 20_000 };
const ID = "sockets-0";
const POD = "pod-uid";
const SOCKET = { podInterfaceName: "pod1", path: `/run/patchbay/vhost-user/${ID}/one.sock` };
/** Unused ids. */
const GROUP = 61_018;
const DATAPLANE = { uid: 61_017, gid: GROUP };
const LAUNCHER = { uid: 107, gid: 107 };
const UNPRIVILEGED_USER = { uid: 61_019, gid: 61_019 };
/** Perl is on each Debian, while this repository may be unreadable to those users. */
const PERL = ["/usr/bin/perl", "-MIO::Socket::UNIX", "-e"];
const LISTENS =
  '$open = IO::Socket::UNIX->new(Local => $ARGV[0], Listen => 1) or die "$!"; <STDIN>';
const CONNECTS = 'IO::Socket::UNIX->new(Peer => $ARGV[0]) or die "$!"';

let node: SocketsNode;
let servers: Server[];
let listener: ChildProcess | undefined;

beforeEach(async () => {
  node = new SocketsNode(GROUP);
  servers = [];
  chmodSync(node.directory, 0o755); // like the node's root directory, which all users may traverse
  mkdirSync(node.here(`/pods/${POD}/volumes/kubernetes.io~empty-dir/launcher`), {
    recursive: true,
  });
  await node.start();
  await node.admit("one", ID);
  await node.admit("two", "sockets-1");
});
afterEach(async () => {
  listener?.kill("SIGKILL");
  listener = undefined;
  for (const server of servers) server.close();
  await node.close();
});

interface User {
  readonly uid: number;
  readonly gid: number;
}

/** Runs as that user without capabilities. */
function as({ uid, gid }: User, ...argv: readonly string[]): readonly [string, ...string[]] {
  const ids = ["--reuid", String(uid), "--regid", String(gid), "--clear-groups"];
  return ["setpriv", ...ids, "--bounding-set=-all", "--inh-caps=-all", ...argv];
}

function run(user: User, ...argv: readonly string[]): void {
  const [program, ...args] = as(user, ...argv);
  execFileSync(program, args, { stdio: "pipe" });
}

async function listenAsDataplane(path: string): Promise<void> {
  const [program, ...args] = as(DATAPLANE, ...PERL, LISTENS, node.here(path));
  listener = spawn(program, args, { stdio: ["pipe", "ignore", "ignore"] });
  await eventually(() => existsSync(node.here(path)), TIMEOUT);
}

function link(): void {
  node.sockets.link(POD, SOCKET);
}

test("only the launcher can connect to a socket of an unprivileged dataplane", async () => {
  await listenAsDataplane(SOCKET.path);
  expect(node.sockets.observe(POD, SOCKET).state).toBe("found");
  link();
  expect(node.sockets.observe(POD, SOCKET).state).toBe("ready");
  const shown = `${node.shownOf(ID)}/one.sock`;
  run(LAUNCHER, ...PERL, CONNECTS, shown);
  expect(() => {
    run(UNPRIVILEGED_USER, ...PERL, CONNECTS, shown);
  }).toThrow("Permission denied");
  // It removes its own.
  run(DATAPLANE, "rm", node.here(SOCKET.path));
  expect(node.sockets.observe(POD, SOCKET)).toEqual({ state: "missing" });
});

test.each([
  { name: "cannot read another pod's dataplane directory", argv: ["ls"] },
  { name: "cannot create a file there", argv: ["touch"], file: "x" },
])("attack 125: a launcher $name", ({ argv, file = "" }) => {
  for (const id of [ID, "sockets-1"]) {
    expect(() => {
      run(LAUNCHER, ...argv, `${node.madeIn(id)}/${file}`);
    }).toThrow("Permission denied");
  }
});

test.each([
  { name: "replaces a pod's directory with a link", argv: ["ln", "-sfT", "/etc"] },
  { name: "removes the directory", argv: ["rmdir"] },
  { name: "opens the directory to all users", argv: ["chmod", "0777"] },
])("attack 125: an unprivileged dataplane $name", ({ argv }) => {
  expect(() => {
    run(DATAPLANE, ...argv, node.madeIn(ID));
  }).toThrow();
  expect(lstatSync(node.madeIn(ID)).isDirectory()).toBe(true);
  expect(statSync(node.madeIn(ID)).mode & 0o7777).toBe(0o2770);
});

test("attack 125: an unprivileged dataplane cannot read or change the directories that launchers see", () => {
  for (const argv of [["ls"], ["touch"]]) {
    expect(() => {
      run(DATAPLANE, ...argv, `${node.shownOf(ID)}/`);
    }).toThrow("Permission denied");
  }
});

/** Requires a kernel that lets unprivileged users open file handles. */
test.each([
  { name: "root's", owner: { uid: 0, gid: 0 } },
  { name: "owned by a service's group", owner: { uid: 0, gid: 61_020 } },
  { name: "owned by a launcher", owner: LAUNCHER },
])(
  "attack 125: an unprivileged dataplane cannot offer another socket of the node, $name, as its own",
  async ({ owner }) => {
    const foreign = node.here("/run/docker.sock");
    const server = createServer();
    servers.push(server);
    await new Promise<void>((resolve) => server.listen(foreign, resolve));
    chownSync(foreign, owner.uid, owner.gid);
    linkSync(foreign, node.here(SOCKET.path));
    expect(node.sockets.observe(POD, SOCKET).state).toBe("refused");
    expect(link).toThrow();
    expect(statSync(foreign)).toMatchObject(owner);
    expect(readdirSync(node.shownOf(ID))).toEqual([]);
  },
);

test("attack 125: files that an unprivileged dataplane leaves in a pod's directory do not reach the next pod", async () => {
  run(DATAPLANE, "ln", "-s", "/etc", `${node.madeIn(ID)}/out`);
  run(DATAPLANE, "mkdir", "-p", `${node.madeIn(ID)}/deep/er`);
  node.forget("one");
  await eventually(() => !existsSync(node.madeIn(ID)), TIMEOUT);
  expect(existsSync("/etc/passwd")).toBe(true);
  await node.admit("next", ID);
  expect(readdirSync(node.madeIn(ID))).toEqual([]);
});
