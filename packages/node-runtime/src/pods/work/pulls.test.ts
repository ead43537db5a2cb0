// SPDX-License-Identifier: Apache-2.0
import {
  createFakeClock,
  createFakeContainerRuntime,
  createFakeFiles,
  createFakeLogger,
} from "@patchbay/ports/testing";
import { expect, test } from "vitest";
import { openImageAccess } from "../../images/image-access.ts";
import { createPulls, type ImageUse, type Pulls } from "./pulls.ts";

const DIGESTS = [`reg/a@sha256:${"0".repeat(64)}`];
const IMAGE = { id: "id-a", tags: ["reg/a:1"], digests: DIGESTS, bytes: 1, username: "" };

function useOf(uid: string, change: Partial<ImageUse> = {}): ImageUse {
  const use = { uid, namespace: "ns1", reference: "reg/a:1", policy: "IfNotPresent", start: "c 0" };
  return { ...use, ...change } as ImageUse;
}

async function setUp() {
  const runtime = createFakeContainerRuntime();
  runtime.putRemoteImage(IMAGE, "right");
  const woken: string[] = [];
  const wake = (uid: string): void => void woken.push(uid);
  const access = await openImageAccess(createFakeFiles(), "/images.json");
  const deps = { runtime, access, clock: createFakeClock(), log: createFakeLogger(), wake };
  return { pulls: createPulls(deps), runtime, woken };
}

/** Fetches it with that password, to the end. */
async function pull(pulls: Pulls, uid: string, password: string): Promise<void> {
  const credentials = () => Promise.resolve([{ username: "me", password }]);
  pulls.begin(useOf(uid), { note: () => undefined, credentials });
  while ((await pulls.find(useOf("onlooker"))).kind === "pulling") await Promise.resolve();
}

test("who is refused by the registry holds up nobody else", async () => {
  const { pulls } = await setUp();
  await pull(pulls, "uid-1", "wrong");
  expect((await pulls.find(useOf("uid-1"))).kind).toBe("failed");
  expect((await pulls.find(useOf("uid-2"))).kind).toBe("absent");
  await pull(pulls, "uid-2", "right");
  expect((await pulls.find(useOf("uid-2"))).kind).toBe("present");
});

test("nothing is remembered of a pod that is gone", async () => {
  const { pulls } = await setUp();
  await pull(pulls, "uid-1", "wrong");
  pulls.forget("uid-1");
  expect((await pulls.find(useOf("uid-1"))).kind).toBe("absent");
});

test("what was pulled for one namespace is not there for another, which asks its registry", async () => {
  const { pulls } = await setUp();
  await pull(pulls, "uid-1", "right");
  const other = useOf("uid-2", { namespace: "ns2" });
  expect((await pulls.find(other)).kind).toBe("absent");
  expect(await pulls.find({ ...other, policy: "Never" })).toMatchObject({
    kind: "failed",
    shown: { reason: "ErrImageNeverPull" },
  });
  expect((await pulls.find({ ...other, reference: IMAGE.id })).kind).toBe("absent");
});

test.each(["Always", "IfNotPresent", "Never"] as const)(
  "what was added is never pulled over, nor asked for: %s",
  async (policy) => {
    const { pulls, runtime } = await setUp();
    runtime.putImage({ ...IMAGE, digests: [] });
    expect((await pulls.find(useOf("uid-1", { policy }))).kind).toBe("present");
  },
);

test.each(["Always", "IfNotPresent"] as const)(
  "what no registry has is not asked for: %s",
  async (policy) => {
    const { pulls } = await setUp();
    const found = await pulls.find(useOf("uid-1", { policy, reference: "localhost/b:1" }));
    expect(found).toMatchObject({ kind: "failed", shown: { reason: "ErrImageNeverPull" } });
  },
);
