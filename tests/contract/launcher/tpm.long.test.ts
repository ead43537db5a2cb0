// SPDX-License-Identifier: Apache-2.0
// A guest's TPM in a launcher of the real image: created by an unprivileged libvirt, and unchanged after a restart.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { eventually } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { makeGuestImage } from "../guest-image.ts";
import { LauncherBench, type LauncherPod } from "./pod.ts";

const TPM = `<tpm model="tpm-crb"><backend type="emulator" version="2.0"/></tpm>`;

let bench: LauncherBench;
beforeAll(async () => {
  bench = await LauncherBench.open(makeGuestImage());
}, 300_000);
afterAll(async () => {
  await bench.close();
});

/** The endorsement key's certificate in the TPM's storage, from its issuer's name on: it is unique per TPM. */
async function certificateOf({ state }: LauncherPod): Promise<string> {
  const bytes = await eventually(
    () => {
      const [uuid = ""] = readdirSync(join(state, "swtpm"));
      const file = join(state, "swtpm", uuid, "tpm2/tpm2-00.permall");
      return existsSync(file) && readFileSync(file);
    },
    { withinMs: 10_000 },
  );
  const at = bytes.indexOf("swtpm-localca");
  expect(at).toBeGreaterThan(0);
  return bytes.subarray(at, at + 400).toString("hex");
}

test("a guest has the same TPM in its next launcher, and another guest has another", async () => {
  const first = await bench.launch({ devices: TPM });
  await first.boot();
  const certificate = await certificateOf(first);
  expect(first.pids("swtpm")).toHaveLength(1);
  await first.terminate();
  expect(await first.exitCode(10_000)).toBe(0);
  await first.remove();

  const next = await bench.launch({ devices: TPM, after: first });
  await next.boot();
  expect(await certificateOf(next)).toBe(certificate);

  const other = await bench.launch({ devices: TPM });
  await other.start();
  expect(await certificateOf(other)).not.toBe(certificate);
  for (const pod of [next, other]) await pod.remove();
});
