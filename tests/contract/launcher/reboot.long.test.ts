// SPDX-License-Identifier: Apache-2.0
// A reboot of the guest in a launcher. Stories of a rebooted VM, tests/e2e/network/masquerade.test.ts among them, need it too.
import { afterAll, beforeAll, expect, test } from "vitest";
import { makeGuestImage } from "../guest-image.ts";
import { LauncherBench, type LauncherPod } from "./pod.ts";

/** Making the images takes most of a minute, once. */
const IMAGES_MS = 300_000;

let bench: LauncherBench;
let pod: LauncherPod;
beforeAll(async () => {
  bench = await LauncherBench.open(makeGuestImage());
  pod = await bench.launch();
}, IMAGES_MS);
afterAll(async () => {
  await pod.remove();
  await bench.close();
});

test("a launcher keeps running when the guest reboots", async () => {
  const guest = await pod.boot();
  const since = guest.position();
  await guest.run("reboot");
  await guest.waitForLine(/^guest ready$/, { timeoutMs: 30_000, since });
  expect((await pod.virsh("domstate", "vm")).trim()).toBe("running");
});
