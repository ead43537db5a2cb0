// SPDX-License-Identifier: Apache-2.0
import type { UnpackingLayer } from "@patchbay/containerd";
import { createFakeClock, settle } from "@patchbay/os/testing";
import { createFakeLogger } from "@patchbay/telemetry/testing";
import { expect, test } from "vitest";
import { createPullGuard, isLowForImages, selectPullsToStop } from "./pull-guard.ts";

const MEBIBYTE = 2 ** 20;

function setUp() {
  const clock = createFakeClock();
  const disk = { sizeBytes: 1000 * MEBIBYTE, freeBytes: 900 * MEBIBYTE, fails: false };
  const log = createFakeLogger();
  const stop = new AbortController();
  const layers: UnpackingLayer[] = [];
  let looks = 0;
  let spaces = 0;
  const guard = createPullGuard({
    clock,
    log,
    signal: stop.signal,
    files: {
      readSpace: () => {
        spaces += 1;
        return disk.fails ? Promise.reject(new Error("no such file")) : Promise.resolve(disk);
      },
    },
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
  /** A pull that a test ends. */
  const finish = (reference: string): { readonly end: () => void } => {
    const { promise, resolve } = Promise.withResolvers<undefined>();
    void guard.run(reference, () => promise);
    return {
      end: () => {
        resolve(undefined);
      },
    };
  };
  return { clock, disk, finish, log, pull, stop, write, looks: () => looks, spaces: () => spaces };
}

test("adds up all layers of a pull, including complete ones, and stops only this pull", async () => {
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

test("resolves a short name to the layer's full name", async () => {
  const { pull, write } = setUp();
  const large = pull("zeros").catch((error: unknown) => String(error));
  await write("one", "docker.io/library/zeros:latest", 300);
  expect(await large).toContain("the pull was stopped");
});

test("does not list layers while nothing is written", async () => {
  const { pull, write, looks } = setUp();
  void pull("reg.example/slow:1");
  await settle();
  for (let turn = 0; turn < 5; turn += 1) await write("one", "reg.example/slow:1", 1);
  expect(looks()).toBe(1);
});

test("passes the original error of a failed pull through", async () => {
  const guard = createPullGuard({
    clock: createFakeClock(),
    log: createFakeLogger(),
    imagesDir: "/images",
    files: { readSpace: () => Promise.resolve({ sizeBytes: 100, freeBytes: 90 }) },
    listUnpacking: () => Promise.reject(new Error("containerd is away")),
    signal: new AbortController().signal,
  });
  await expect(guard.run("a", () => Promise.reject(new Error("401")))).rejects.toThrow("401");
  expect(await guard.run("a", () => Promise.resolve("id"))).toBe("id");
});

test("runs a pull with an invalid image name", async () => {
  const { pull, write } = setUp();
  const ends: string[] = [];
  void pull("Not A Name").catch(() => ends.push("stopped"));
  await write("one", "reg.example/x:1", 300);
  expect(ends).toEqual([]);
});

test("layers of a finished pull do not count for a later pull of the image", async () => {
  const { disk, finish, pull, write } = setUp();
  const ends: string[] = [];
  void pull("reg.example/other:1");
  const first = finish("reg.example/large:1");
  await write("one", "reg.example/large:1", 200);
  first.end();
  await settle();
  await write("other", "reg.example/other:1", 40);
  disk.freeBytes += 240 * MEBIBYTE;
  await write("none", "reg.example/other:1", 0);
  void pull("reg.example/large:1").catch(() => ends.push("stopped"));
  await write("two", "reg.example/large:1", 100);
  expect(ends).toEqual([]);
});

test("stops each pull of an image that is too large, and counts its layers no more", async () => {
  const { pull, write } = setUp();
  const ends: string[] = [];
  void pull("reg.example/large:1").catch(() => ends.push("one"));
  void pull("reg.example/large:1").catch(() => ends.push("two"));
  void pull("reg.example/small:1").catch(() => ends.push("small"));
  await write("one", "reg.example/large:1", 300);
  expect(ends).toEqual(["one", "two"]);
  void pull("reg.example/large:1").catch(() => ends.push("again"));
  await write("two", "reg.example/large:1", 100);
  expect(ends).toEqual(["one", "two"]);
});

test("stops checking the disk when all pulls or the program have ended", async () => {
  const { clock, finish, spaces, stop } = setUp();
  const first = finish("reg.example/a:1");
  await settle();
  first.end();
  await clock.advance(250);
  await clock.advance(250);
  expect(spaces()).toBe(1);
  finish("reg.example/b:1");
  await settle();
  expect(spaces()).toBe(2);
  await clock.advance(249);
  expect(spaces()).toBe(2);
  await clock.advance(1);
  expect(spaces()).toBe(3);
  stop.abort();
  await clock.advance(250);
  expect([spaces(), clock.dueMs]).toEqual([3, []]);
});

test("checks once for two concurrent pulls", async () => {
  const { clock, finish, spaces } = setUp();
  finish("reg.example/a:1");
  finish("reg.example/b:1");
  await settle();
  expect(spaces()).toBe(1);
  await clock.advance(250);
  expect(spaces()).toBe(2);
});

test("reports a disk that cannot be checked, and pulls continue", async () => {
  const { clock, disk, finish, log } = setUp();
  disk.fails = true;
  finish("reg.example/a:1");
  await settle();
  expect(log.lines).toEqual([
    {
      level: "warn",
      message: "sizes of running pulls cannot be checked",
      fields: { reason: "no such file" },
    },
  ]);
  await clock.advance(250);
  expect(log.lines).toHaveLength(2);
});

test("reports a stopped pull with its reason", async () => {
  const { log, pull, write } = setUp();
  const large = pull("zeros").catch((error: unknown) => error);
  await write("one", "docker.io/library/zeros:latest", 300);
  expect(await large).toMatchObject({ code: "RUNTIME_IMAGE_TOO_LARGE" });
  expect(log.lines).toMatchObject([
    {
      level: "warn",
      message: "pull is stopped",
      fields: { object: "docker.io/library/zeros:latest" },
    },
  ]);
});

test("lists layers only after another 32 MiB were written", async () => {
  const { pull, write, looks } = setUp();
  void pull("reg.example/slow:1");
  await settle();
  const before = looks();
  await write("one", "reg.example/slow:1", 31);
  expect(looks()).toBe(before);
  await write("two", "reg.example/slow:1", 1);
  expect(looks()).toBe(before + 1);
  await write("three", "reg.example/slow:1", 32);
  expect(looks()).toBe(before + 2);
});

test("space that is freed meanwhile may be written again", async () => {
  const { disk, pull, write, looks } = setUp();
  void pull("reg.example/slow:1");
  await settle();
  const before = looks();
  disk.freeBytes += 100 * MEBIBYTE;
  await write("one", "reg.example/slow:1", 0);
  expect(looks()).toBe(before);
  await write("two", "reg.example/slow:1", 32);
  expect(looks()).toBe(before + 1);
});

const GIBIBYTE = 2 ** 30;

interface Case {
  readonly name: string;
  /** GiB. */
  readonly disk: readonly [size: number, free: number];
  readonly unpacked: Readonly<Record<string, number>>;
  readonly want: Readonly<Record<string, string>>;
}

const FULL = "the node's disk is nearly full: 1.5Gi of 100Gi are left";

test.each<Case>([
  {
    name: "continues up to a quarter of the disk",
    disk: [8, 4],
    unpacked: { a: 2 },
    want: {},
  },
  {
    name: "alone stops if it exceeds a quarter of the disk",
    disk: [8, 4],
    unpacked: { a: 2.1, b: 1 },
    want: { a: "it unpacks to more than 2Gi, a quarter of the node's disk of 8Gi" },
  },
  {
    name: "with the largest image stops on a nearly full disk",
    disk: [100, 1.5],
    unpacked: { a: 1, b: 2, c: 0 },
    want: { b: FULL },
  },
  {
    name: "stops together with all others on a nearly full disk if no size is known",
    disk: [100, 1.5],
    unpacked: { a: 0, b: 0 },
    want: { a: FULL, b: FULL },
  },
])("a pull $name", ({ disk: [size, free], unpacked, want }) => {
  const bytes = Object.entries(unpacked).map(
    ([name, amount]) => [name, amount * GIBIBYTE] as const,
  );
  const disk = { sizeBytes: size * GIBIBYTE, freeBytes: free * GIBIBYTE };
  expect(Object.fromEntries(selectPullsToStop(new Map(bytes), disk))).toEqual(want);
});

test("pulls stop well before the disk usage that causes evictions", () => {
  expect(isLowForImages({ sizeBytes: 10, freeBytes: 0.9 })).toBe(true);
  expect(isLowForImages({ sizeBytes: 10, freeBytes: 1.1 })).toBe(false);
});
