// SPDX-License-Identifier: Apache-2.0
// Backoff of attachments whose error text varies while the agent's own writes wake the pod.
import { names } from "@patchbay/api";
import { AppError } from "@patchbay/base";
import { expect, test } from "vitest";
import { World } from "../../testing/world.ts";

let words = 0;

/** Like ptp, whose error names a new random MAC each time. */
function refusal(command: "ADD" | "DEL"): AppError {
  words += 1;
  const message = `the interface has ${String(words)}`;
  return new AppError("CNI_PLUGIN_FAILED", { plugin: "ptp", command, message, cniCode: 999 });
}

async function aWorld(networks: string): Promise<World> {
  const world = new World();
  world.putNads("a", "b");
  await world.putPod({ networks });
  return world;
}

/** Wakes the agent twice a second for this time; each ADD fails. */
async function wake(world: World, seconds: number): Promise<void> {
  for (const end = world.nowMs + seconds * 1000; world.nowMs < end; world.nowMs += 500) {
    world.cni.failNext("add", refusal("ADD"));
    await world.continuePass();
  }
  world.cni.heal();
}

function adds(world: World): number {
  return world.cni.calls.filter((call) => call.startsWith("ADD")).length;
}

test("backs off with growing delays although the error's text varies", async () => {
  const world = await aWorld("a");
  await wake(world, 60);
  expect(adds(world)).toBeGreaterThanOrEqual(5);
  expect(adds(world)).toBeLessThanOrEqual(9);
  expect(world.store.calls.filter((call) => call.startsWith("patch"))).toHaveLength(1);
  expect(new Set(world.notes.map(({ message }) => message)).size).toBe(1);
  expect(await world.errorReasons()).toEqual({ net1: "CniFailed" });
});

test("retries by itself when the backoff ends", async () => {
  const world = await aWorld("a");
  world.cni.failNext("add", refusal("ADD"));
  await world.continuePass();
  const pauseMs = await world.nextMs();
  expect(pauseMs).toBeGreaterThanOrEqual(800);
  expect(pauseMs).toBeLessThanOrEqual(1000);
  world.nowMs += pauseMs ?? 0;
  expect(await world.continuePass()).toBeUndefined();
  expect(await world.annotation(names.ATTACHMENT_ERRORS_ANNOTATION)).toBeUndefined();
});

test("does not delay another network of the pod", async () => {
  const world = await aWorld("a");
  await wake(world, 20);
  await world.putPod({ networks: "a,b" });
  await world.continuePass();
  expect(world.cni.attachments).toEqual(["box-uid-1/net2"]);
});

test("retries at once when the definition is corrected", async () => {
  const world = await aWorld("a");
  await wake(world, 20);
  world.putNad({ namespace: "ns1", name: "a" }, { cniVersion: "1.0.0", type: "bridge", mtu: 1400 });
  await world.continuePass();
  await world.continuePass();
  expect(world.cni.attachments).toEqual(["box-uid-1/net1"]);
});

test("reports an unreadable annotation once, however often the pod wakes", async () => {
  const world = await aWorld("a,".repeat(33_000));
  for (let pass = 0; pass < 5; pass += 1) expect(await world.continuePass()).toBeUndefined();
  expect(world.notes).toMatchObject([
    {
      type: "Warning",
      reason: "AnnotationInvalid",
      message: "the networks annotation cannot be parsed: it is longer than 65536 characters",
    },
  ]);
  expect(world.cni.calls).toEqual([]);
});
