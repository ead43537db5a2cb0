// SPDX-License-Identifier: Apache-2.0
// Main kinds of disk images and claims that refer to node files. All others are in 71-disk-images.long.test.ts.
import { afterAll, afterEach, beforeAll } from "vitest";
import { RuntimeMachine } from "../../contract/node-runtime/machine.ts";
import { IMAGES_MS } from "../containers/pod-machine.ts";
import {
  LINK_TARGETS,
  makeDiskImages,
  REFUSED_CLAIMS,
  REFUSED_IMAGES,
  testRefusedDisks,
  type DiskBench,
} from "./disk-images-table.ts";

let bench: DiskBench;

beforeAll(async () => {
  const machine = await RuntimeMachine.start();
  bench = { machine, images: await makeDiskImages(machine) };
}, IMAGES_MS);
afterEach(async () => {
  await bench.machine.clear();
});
afterAll(async () => {
  await bench.machine.close();
});

testRefusedDisks(() => bench, {
  images: REFUSED_IMAGES.slice(0, 3),
  links: LINK_TARGETS.slice(0, 1),
  claims: REFUSED_CLAIMS.slice(0, 1),
});
