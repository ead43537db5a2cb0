// SPDX-License-Identifier: Apache-2.0
import type { UnpackingLayer } from "@patchbay/containerd";
import { createFakeClock, settle } from "@patchbay/os/testing";
import { createFakeLogger } from "@patchbay/telemetry/testing";
import { expect, test } from "vitest";
import { createPullGuard } from "./pull-guard.ts";

const MEBIBYTE = 2 ** 20;

function setUp() {
  const clock = createFakeClock();
  const disk = { sizeBytes: 1000 * MEBIBYTE, freeBytes: 900 * MEBIBYTE };
  const layers: UnpackingLayer[] = [];
  let looks = 0;
  const guard = createPullGuard({
    ...{ clock, log: createFakeLogger(), signal: new AbortController().signal },
    files: { space: () => Promise.resolve({ ...disk }) },
    imagesDir: "/images",
    listUnpacking: () => {
      looks += 1;
      return Promise.resolve([...layers]);
    },
  });
  /** A pull that ends when it is told to. */
  const pull = (reference: string): Promise<string> =>
    guard.run(
      reference,
      (signal) =>
        new Promise((_resolve, reject) => {
          signal.addEventListener("abort", () => {
            reject(new Error("cancelled"));
          });
        }),
    );
  const write = async (key: string, reference: string, mebibytes: number): Promise<void> => {
    const bytes = mebibytes * MEBIBYTE;
    layers.splice(0, layers.length, { key, reference, bytes });
    disk.freeBytes -= bytes;
    await settle();
    void clock.advance(250);
    await settle();
  };
  return { disk, pull, write, looks: () => looks };
}

test("layers are added up, those that are done too, and only their pull is stopped", async () => {
  const { pull, write } = setUp();
  const ends: string[] = [];
  const large = pull("reg.example/large:1").catch((error: unknown) => String(error));
  void pull("reg.example/small:1").catch(() => ends.push("small"));
  await write("one", "reg.example/large:1", 100);
  await write("two", "reg.example/large:1", 100);
  await write("three", "reg.example/large:1", 100);
  expect(await large).toContain("it unpacks to more than 250Mi");
  expect(ends).toEqual([]);
});

test("a short name is the whole one that the layer has", async () => {
  const { pull, write } = setUp();
  const large = pull("zeros").catch((error: unknown) => String(error));
  await write("one", "docker.io/library/zeros:latest", 300);
  expect(await large).toContain("the pull was stopped");
});

test("nobody is asked while nothing is written", async () => {
  const { pull, write, looks } = setUp();
  void pull("reg.example/slow:1");
  await settle();
  for (let turn = 0; turn < 5; turn += 1) await write("one", "reg.example/slow:1", 1);
  expect(looks()).toBe(1);
});

test("how a pull fails by itself is told as it is", async () => {
  const guard = createPullGuard({
    ...{ clock: createFakeClock(), log: createFakeLogger(), imagesDir: "/images" },
    files: { space: () => Promise.resolve({ sizeBytes: 100, freeBytes: 90 }) },
    listUnpacking: () => Promise.reject(new Error("containerd is away")),
    signal: new AbortController().signal,
  });
  await expect(guard.run("a", () => Promise.reject(new Error("401")))).rejects.toThrow("401");
  expect(await guard.run("a", () => Promise.resolve("id"))).toBe("id");
});
