// SPDX-License-Identifier: Apache-2.0
import { createFakeClock, createFakeFiles } from "@patchbay/os/testing";
import { expect, test } from "vitest";
import { HANDLE } from "../testing.ts";
import { createClaimGrowth } from "./claim-growth.ts";

const WORDS = `new data of claim volume "${HANDLE}"`;

test("what a claim has grown by is that of the pods that use it, until one has gone for it", async () => {
  const files = createFakeFiles();
  await files.writeAtomic(`/claims/${HANDLE}/users/pod-1`, "");
  let bytes = 100;
  const growth = createClaimGrowth({
    ...{ files, claimsDir: "/claims", clock: createFakeClock() },
    usedBytes: (paths) => Promise.resolve(new Map(paths.map((path) => [path, bytes]))),
  });
  expect(await growth.measure()).toEqual(new Map());
  bytes = 130;
  expect(await growth.measure()).toEqual(new Map([["pod-1", new Map([[WORDS, 30]])]]));
  growth.forgive("pod-1");
  expect(await growth.measure()).toEqual(new Map());
});
