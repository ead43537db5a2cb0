// SPDX-License-Identifier: Apache-2.0
// Launchers that are silent, answer keep-alives only, or hang in a call: they block no other VM of the node.
import { readdirSync } from "node:fs";
import { eventually } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { AttackedNode, failureOf } from "../false-libvirt/false-libvirt.ts";
import { NodeLoop } from "../false-libvirt/hung-node.ts";

const HUNG = ["silent", "keepalive only", "keepalive only", "hangs in a call", "hangs in a call"];
const HUNG_COUNT = 50;

let loop: NodeLoop;

beforeAll(() => {
  loop = new NodeLoop();
});

afterAll(() => loop.close());

function medianOf(values: readonly number[]): number {
  return values.toSorted((left, right) => left - right)[values.length >> 1] ?? Infinity;
}

function countThreads({ pids }: AttackedNode): number {
  return pids.flatMap((pid) => readdirSync(`/proc/${String(pid)}/task`)).length;
}

/** Number of other passes that a pass waits for. */
async function medianPass(): Promise<number> {
  const passes: number[] = [];
  for (let turn = 0; turn < 15; turn += 1) passes.push(await loop.passOver("honest"));
  return medianOf(passes);
}

/** The same for the first pass over a new launcher, which opens it. */
async function medianFirstPass(names: readonly string[]): Promise<number> {
  const passes: number[] = [];
  for (const name of names) {
    await loop.addLauncher(name, "honest");
    passes.push(await loop.passOver(name));
  }
  return medianOf(passes);
}

test("attack 11: launchers whose listener process changes each time hold no thread of the child", async () => {
  const node = new AttackedNode({ openTimeoutMs: 200, stuckAfterMs: 5000, stuckMax: 0 });
  try {
    const neighbor = await node.neighbour();
    const threads = countThreads(node);
    const address = await node.daemons.startListeners();
    const opens = Array.from({ length: 20 }, () => failureOf(node.hypervisor.open(address)));
    const codes = await Promise.all(opens);
    expect(codes.every((code) => /LIBVIRT_(TIMED_OUT|UNREACHABLE)/.test(code))).toBe(true);
    await eventually(() => countThreads(node) <= threads, { withinMs: 20_000 });
    expect((await neighbor.findDomain("test"))?.state).toBe("running");
    expect(node.pids).toHaveLength(1);
  } finally {
    await node.close();
  }
});

test("attack 11: a pass over a VM does not wait for fifty hung launchers", async () => {
  await loop.addLauncher("honest", "honest");
  const hung = HUNG.map((behavior, index) => ({
    behaviour: behavior,
    name: `hung-${String(index)}`,
  }));
  await loop.addSilentLaunchers(HUNG_COUNT - HUNG.length);
  await Promise.all(hung.map(({ name, behaviour: behavior }) => loop.addLauncher(name, behavior)));
  for (const { name } of hung) loop.queue.add(name);
  expect(await medianPass()).toBe(0);
  // Also for new launchers, which must be opened first.
  expect(await medianFirstPass(["fifty-first", "fifty-second", "fifty-third"])).toBe(0);
  expect(loop.node.pids).toHaveLength(1);
});
