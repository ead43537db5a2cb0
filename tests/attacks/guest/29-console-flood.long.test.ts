// SPDX-License-Identifier: Apache-2.0
// root in the guest floods its console, which has no reader.
import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { names } from "@patchbay/api";
import { eventually } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { makeGuestImage } from "../../contract/guest-image.ts";
import { LauncherBench, type LauncherPod } from "../../contract/launcher/pod.ts";

/** Making the images takes most of a minute, once. */
const IMAGES_MS = 300_000;
const MIB = 1024 * 1024;
/** Software emulation prints about 150 kB/s. */
const FLOOD_MIB = 5;
/** Four files of 1 MiB, and libvirt's read buffer. */
const RETAINED_BYTES = 4 * MIB + 64 * 1024;

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

function sizes(): readonly number[] {
  return readdirSync(pod.volume)
    .filter((name) => name.startsWith(names.CONSOLE_LOG))
    .map((name) => statSync(join(pod.volume, name)).size);
}

test(
  "attack 29: a console flood is limited to four files, and the guest keeps running",
  { timeout: 180_000 },
  async () => {
    const guest = await pod.boot();
    const flood = guest.run(`flood ${String(FLOOD_MIB)}`, { timeoutMs: 150_000 });
    await eventually(() => sizes().length === 4, { withinMs: 150_000 });
    expect((await flood).code).toBe(0);
    expect(sizes()).toHaveLength(4);
    expect(sizes().reduce((sum, size) => sum + size, 0)).toBeLessThan(RETAINED_BYTES);
    expect((await guest.run("report")).code).toBe(0);
  },
);
