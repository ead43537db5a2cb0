// SPDX-License-Identifier: Apache-2.0
import { createFakeClock, createFakeFiles } from "@patchbay/os/testing";
import { expect, test } from "vitest";
import { HANDLE } from "./testing.ts";
import { createClaimGrowth } from "./claim-growth.ts";

const WORDS = `new data of claim volume "${HANDLE}"`;

test("assigns the growth of a claim to its pods until the growth is reset", async () => {
  const files = createFakeFiles();
  await files.writeAtomic(`/claims/${HANDLE}/users/pod-1`, "");
  let bytes = 100;
  const growth = createClaimGrowth({
    files,
    claimsDir: "/claims",
    clock: createFakeClock(),
    usedBytes: (paths) => Promise.resolve(new Map(paths.map((path) => [path, bytes]))),
  });
  expect(await growth.measure()).toEqual(new Map());
  bytes = 130;
  expect(await growth.measure()).toEqual(new Map([["pod-1", new Map([[WORDS, 30]])]]));
  growth.resetGrowth("pod-1");
  expect(await growth.measure()).toEqual(new Map());
});

test("assigns the growth of a claim to each of its pods, and resets it for each of them", async () => {
  const files = createFakeFiles();
  const other = HANDLE.replace("1111", "2222");
  for (const handle of [HANDLE, other])
    await files.writeAtomic(`/claims/${handle}/users/pod-1`, "");
  await files.writeAtomic(`/claims/${HANDLE}/users/pod-2`, "");
  await files.ensureDirectory("/claims/lost+found");
  const paths: (readonly string[])[] = [];
  let bytes = 0;
  const growth = createClaimGrowth({
    files,
    claimsDir: "/claims",
    clock: createFakeClock(),
    usedBytes: (asked) => {
      paths.push(asked);
      return Promise.resolve(new Map(asked.map((path) => [path, bytes])));
    },
  });
  await growth.measure();
  expect(paths).toEqual([[`/claims/${HANDLE}/volume.img`, `/claims/${other}/volume.img`]]);
  bytes = 10;
  const grown = await growth.measure();
  expect([...(grown.get("pod-1")?.values() ?? [])]).toEqual([10, 10]);
  expect([...(grown.get("pod-2")?.keys() ?? [])]).toEqual([WORDS]);
  growth.resetGrowth("pod-3");
  growth.resetGrowth("pod-2");
  expect([...((await growth.measure()).get("pod-1")?.values() ?? [])]).toEqual([10]);
  growth.resetGrowth("pod-1");
  expect(await growth.measure()).toEqual(new Map());
});

test("an unmeasured claim has not grown", async () => {
  const files = createFakeFiles();
  await files.writeAtomic(`/claims/${HANDLE}/users/pod-1`, "");
  let used = new Map<string, number>();
  const growth = createClaimGrowth({
    files,
    claimsDir: "/claims",
    clock: createFakeClock(),
    usedBytes: () => Promise.resolve(used),
  });
  await growth.measure();
  used = new Map([[`/claims/${HANDLE}/volume.img`, 5]]);
  expect((await growth.measure()).get("pod-1")).toEqual(new Map([[WORDS, 5]]));
});
