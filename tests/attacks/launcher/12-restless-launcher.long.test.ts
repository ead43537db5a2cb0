// SPDX-License-Identifier: Apache-2.0
// A launcher whose every reply wakes the loop again: connections that drop, guests that cannot start.
import { eventually } from "@patchbay/support";
import { afterEach, expect, test } from "vitest";
import { AttackedLoop, launchersAt } from "../false-libvirt/attacked-loop.ts";
import { AttackedNode } from "../false-libvirt/false-libvirt.ts";

/** Pause to which the loop backs off during an attack, milliseconds. The first pauses are shorter. */
const BACKED_OFF_MS = 1_000;

let node: AttackedNode;
let loop: AttackedLoop;

async function attack(behavior: string): Promise<void> {
  node = new AttackedNode();
  loop = new AttackedLoop(node, launchersAt(await node.daemons.start(behavior)));
  await eventually(() => loop.vmi?.status?.blockedReason !== undefined, { withinMs: 20_000 });
  await hasBackedOff();
}

async function hasBackedOff(): Promise<void> {
  await eventually(() => loop.longestPauseMs >= BACKED_OFF_MS, { withinMs: 20_000 });
}

afterEach(async () => {
  await loop.close();
  await node.close();
});

test("attack 12: reopens a connection that drops at each read with growing pauses and few log messages", async () => {
  await attack("drops at each read");
  const opened = loop.log.filter((line) => line.includes("opened session"));
  expect(opened.length).toBeLessThan(20);
  expect(loop.log.join("\n").length).toBeLessThan(20_000);
  expect(node.lines).toBeLessThan(10);
  expect(loop.writes).toBeLessThan(20);
  expect(loop.events.filter((event) => event.startsWith("SyncFailed"))).toHaveLength(1);
  expect(loop.vmi?.status?.blockedReason).toMatchObject({ reason: "LauncherUnreachable" });
});

test("attack 12: also backs off from a connection that drops after each successful read", async () => {
  node = new AttackedNode();
  loop = new AttackedLoop(node, launchersAt(await node.daemons.start("drops after each read")));
  await hasBackedOff();
  expect(loop.log.filter((line) => line.includes("opened session")).length).toBeLessThan(10);
  expect(loop.log.join("\n").length).toBeLessThan(10_000);
});

test("attack 13: retries a guest whose kernel is missing a few times and reports it once", async () => {
  await attack("a guest that never starts");
  const failed = loop.log.filter((line) => line.includes("cannot be started"));
  expect(failed.length).toBeLessThan(6);
  expect(loop.log.length).toBeLessThan(30);
  expect(loop.writes).toBeLessThan(10);
  expect(loop.events).toEqual([expect.stringContaining("no kernel")]);
  expect(loop.vmi?.status?.blockedReason).toMatchObject({ reason: "GuestNotStarted" });
});
