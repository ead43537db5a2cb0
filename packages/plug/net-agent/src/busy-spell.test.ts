// SPDX-License-Identifier: Apache-2.0
import { createFakeCni } from "@patchbay/cni/testing";
import type { AttachmentRequest, LogFields } from "@patchbay/core/ports";
import { createFakeClock } from "@patchbay/os/testing";
import { createSilentLogger } from "@patchbay/telemetry";
import { expect, test } from "vitest";
import { createBusySpell, type BusySpell } from "./busy-spell.ts";

function requestOf(pod: string, interfaceName: string): AttachmentRequest {
  return {
    containerId: pod,
    netnsPath: `/run/netns/${pod}`,
    interfaceName,
    args: [],
    config: { cniVersion: "1.0.0", name: "red", plugins: [{ type: "bridge" }] },
    capabilityArgs: {},
  };
}

function setUp(waiting: { count: number }) {
  const told: LogFields[] = [];
  const clock = createFakeClock();
  const cni = createFakeCni();
  const log = {
    ...createSilentLogger(),
    info: (_message: string, fields?: LogFields) => told.push(fields ?? {}),
  };
  const spell = createBusySpell({ cni, clock, log }, () => waiting.count === 0);
  return { told, clock, cni, spell };
}

/** Two networks for each pod, of which the last is worked on when nothing waits any more. */
async function attachAll(
  spell: BusySpell,
  pods: readonly string[],
  waiting: { count: number },
): Promise<void> {
  for (const [index, pod] of pods.entries()) {
    waiting.count = pods.length - index - 1;
    await spell.pass(`ns/${pod}`, async () => {
      await spell.cni.add(requestOf(pod, "net1"));
      await spell.cni.add(requestOf(pod, "net2"));
    });
  }
}

const PODS = Array.from({ length: 10 }, (_, index) => `pod${String(index)}`);

test("tells once how many networks of how many pods were attached, and how long that took", async () => {
  const waiting = { count: PODS.length };
  const { told, clock, spell } = setUp(waiting);
  await spell.pass("ns/first", async () => {
    await clock.advance(9_300);
    await attachAll(spell, PODS, waiting);
  });
  expect(told).toEqual([{ pods: 11, attached: 20, detached: 0, failed: 0, durationMs: 9_300 }]);
});

test("tells nothing of a few, and counts each spell alone", async () => {
  const waiting = { count: 0 };
  const { told, spell } = setUp(waiting);
  await attachAll(spell, PODS.slice(0, 5), waiting);
  await attachAll(spell, PODS.slice(5), waiting);
  expect(told).toEqual([]);
});

test("counts what failed, which fails as before", async () => {
  const waiting = { count: 1 };
  const { told, cni, spell } = setUp(waiting);
  cni.failNext("add", new Error("no address"));
  await expect(spell.pass("ns/a", () => spell.cni.add(requestOf("a", "net1")))).rejects.toThrow(
    "no address",
  );
  await attachAll(spell, PODS, waiting);
  expect(told).toEqual([expect.objectContaining({ pods: 11, attached: 20, failed: 1 })]);
});
