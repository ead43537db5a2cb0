// SPDX-License-Identifier: Apache-2.0
// A launcher that replaces its sockets with other files before its node's relay connects.
import { chownSync, existsSync, lstatSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { once } from "node:events";
import { connect as connectUnix, createServer } from "node:net";
import { join } from "node:path";
import { eventually } from "@patchbay/support";
import type { RelayMessage } from "@patchbay/virt-handler/testing";
import { afterEach, beforeEach, expect, test } from "vitest";
import {
  LIBVIRT_SOCKET,
  PEER_SOCKET,
  RelayBench,
  SOCKETS,
} from "../../contract/libvirt/relay-bench.ts";
import { LAUNCHER, makeOwnDirectory } from "../../contract/libvirt/session.ts";

let bench: RelayBench;
beforeEach(async () => {
  bench = await RelayBench.make();
});
afterEach(() => bench.close());

test.each([
  { what: "a link to another launcher's libvirt", isDirectory: false },
  { what: "a link in place of the directory of libvirt's socket", isDirectory: true },
])("attack 107: $what does not redirect the target's relay", async ({ isDirectory }) => {
  const foreign = join(makeOwnDirectory(join(bench.directory, "foreign")), "libvirt-sock");
  let visits = 0;
  const victim = createServer(() => (visits += 1)).listen(foreign);
  await once(victim, "listening");
  chownSync(foreign, LAUNCHER.uid, LAUNCHER.gid);
  const link = join(bench.targetDirectory, LIBVIRT_SOCKET);
  if (isDirectory)
    symlinkSync(join(bench.directory, "foreign"), join(bench.targetDirectory, "libvirt"));
  else {
    mkdirSync(join(bench.targetDirectory, "libvirt"));
    symlinkSync(foreign, link);
  }
  const receiving = await bench.receive();
  const text: RelayMessage[] = [];
  receiving.onMessage((message) => text.push(message));
  await bench.send(receiving);
  connectUnix(join(bench.sourceDirectory, PEER_SOCKET)).on("error", () => undefined);
  const end = await eventually(() => text.find(({ kind }) => kind === "ended"), {
    withinMs: 10_000,
  });
  victim.close();
  expect(JSON.stringify(end)).toMatch(/"channel":"libvirt".* is refused/);
  expect(visits).toBe(0);
});

test("attack 107: does not write through files in place of the source's sockets, and removes nothing outside", async () => {
  const secret = join(bench.directory, "secret");
  const tree = join(bench.directory, "tree");
  mkdirSync(tree);
  writeFileSync(secret, "kept", { mode: 0o600 });
  writeFileSync(join(tree, "file"), "kept");
  symlinkSync(secret, join(bench.sourceDirectory, PEER_SOCKET));
  symlinkSync(tree, join(bench.sourceDirectory, SOCKETS.memory));
  const { ports } = await bench.receive();
  await bench.send({ ports });
  for (const name of [PEER_SOCKET, SOCKETS.memory]) {
    const made = lstatSync(join(bench.sourceDirectory, name));
    expect([made.isSocket(), made.uid]).toEqual([true, LAUNCHER.uid]);
  }
  expect([secret, join(tree, "file")].map((path) => existsSync(path))).toEqual([true, true]);
});
