// SPDX-License-Identifier: Apache-2.0
// The launchers' user owns the directory of the console; an administrator, root, opens the console.
import { mkdirSync, rmSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { ConsoleMachine } from "../../contract/console/machine.ts";

let machine: ConsoleMachine;
beforeEach(async () => {
  machine = await ConsoleMachine.start();
});
afterEach(async () => {
  await machine[Symbol.asyncDispose]();
});

test.each([
  {
    name: "the socket is a link to a socket of root's",
    make: (target: string) => {
      symlinkSync(join(target, "serial0.sock"), join(machine.launcherDir, "serial0.sock"));
    },
  },
  {
    name: "the volume is a link to a directory of root's",
    make: (target: string) => {
      rmSync(machine.launcherDir, { recursive: true });
      symlinkSync(target, machine.launcherDir);
    },
  },
])("attack 22: $name, and nobody is sent there", async ({ make }) => {
  const target = join(machine.dataDir, "root");
  mkdirSync(target, { mode: 0o700 });
  const { visitors } = await machine.listen(join(target, "serial0.sock"));
  make(target);
  const console = machine.open();
  console.child.stdin.end("shutdown now\n");
  const { code, err } = await console.ended;
  expect(err).toContain("serial0.sock is refused: ");
  expect(code).toBe(1);
  expect(visitors).toEqual([]);
});
