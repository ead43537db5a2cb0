// SPDX-License-Identifier: Apache-2.0
// The program `patchbay console`: one reader, and a guest that never waits for it.
import { once } from "node:events";
import { eventually } from "@patchbay/support";
import { afterEach, beforeEach, expect, test } from "vitest";
import { ConsoleMachine } from "./machine.ts";

let machine: ConsoleMachine;
beforeEach(async () => {
  machine = await ConsoleMachine.start();
});
afterEach(async () => {
  await machine[Symbol.asyncDispose]();
});

const SOON = { withinMs: 10_000 };

test("brings what is typed to the guest and what it says back", async () => {
  const guest = await machine.listenAsGuest();
  const console = machine.open();
  const [visitor] = await eventually(() => guest.visitors.length > 0 && guest.visitors, SOON);
  visitor?.write("login: ");
  const [prompt] = (await once(console.child.stdout, "data")) as [Buffer];
  expect(prompt.toString()).toBe("login: ");
  console.child.stdin.end("root\n");
  const [typed] = (await once(visitor ?? console.child, "data")) as [Buffer];
  expect(typed.toString()).toBe("root\n");
  expect(await console.ended).toEqual({ code: 0, err: "" });
});

test("a second one is told who has it, and the first one's end makes room", async () => {
  const guest = await machine.listenAsGuest();
  const first = machine.open();
  await eventually(() => guest.visitors.length > 0, SOON);
  await eventually(async () => {
    const { code, err } = await machine.open().ended;
    return code === 4 && err.includes(`already open in process ${String(first.child.pid)}`);
  }, SOON);
  first.child.kill("SIGKILL");
  await first.ended;
  const third = machine.open();
  third.child.stdin.end();
  expect((await third.ended).code).toBe(0);
});

test.each([
  { name: "whose output nobody reads", stop: () => undefined },
  { name: "that is stopped", stop: (pid: number) => process.kill(pid, "SIGSTOP") },
])("a console $name never stops the guest", async ({ stop }) => {
  const guest = await machine.listenAsGuest();
  const console = machine.open();
  const [visitor] = await eventually(() => guest.visitors.length > 0 && guest.visitors, SOON);
  if (visitor === undefined) throw new Error("nobody came");
  visitor.write("hello");
  await once(console.child.stdout, "readable");
  stop(console.child.pid ?? 0);
  for (let kib = 0; kib < 8 * 1024; kib += 1) {
    if (!visitor.write(Buffer.alloc(1024, "x"))) await once(visitor, "drain");
  }
  expect(visitor.writableLength).toBeLessThan(1024 * 1024);
});
