// SPDX-License-Identifier: Apache-2.0
import {
  createFakeClock,
  createFakeContainerRuntime,
  createFakeLogger,
} from "@patchbay/ports/testing";
import { expect, test } from "vitest";
import { createPulls, type ImageUse, type Pulls } from "./pulls.ts";

const IMAGE = { id: "id-a", tags: ["reg/a:1"], digests: [], bytes: 1, username: "" };

function useOf(uid: string): ImageUse {
  return { uid, reference: "reg/a:1", policy: "IfNotPresent", start: "c 0" };
}

function setUp() {
  const runtime = createFakeContainerRuntime();
  runtime.putRemoteImage(IMAGE, "right");
  const woken: string[] = [];
  const wake = (uid: string): void => void woken.push(uid);
  const pulls = createPulls({ runtime, clock: createFakeClock(), log: createFakeLogger(), wake });
  return { pulls, woken };
}

/** Fetches it with that password, to the end. */
async function pull(pulls: Pulls, uid: string, password: string): Promise<void> {
  const credentials = () => Promise.resolve([{ username: "me", password }]);
  pulls.begin(useOf(uid), { note: () => undefined, credentials });
  while ((await pulls.find(useOf("onlooker"))).kind === "pulling") await Promise.resolve();
}

test("who is refused by the registry holds up nobody else", async () => {
  const { pulls } = setUp();
  await pull(pulls, "uid-1", "wrong");
  expect((await pulls.find(useOf("uid-1"))).kind).toBe("failed");
  expect((await pulls.find(useOf("uid-2"))).kind).toBe("absent");
  await pull(pulls, "uid-2", "right");
  expect((await pulls.find(useOf("uid-2"))).kind).toBe("present");
});

test("nothing is remembered of a pod that is gone", async () => {
  const { pulls } = setUp();
  await pull(pulls, "uid-1", "wrong");
  pulls.forget("uid-1");
  expect((await pulls.find(useOf("uid-1"))).kind).toBe("absent");
});
