// SPDX-License-Identifier: Apache-2.0
import { randomUUID } from "node:crypto";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createFiles } from "@patchbay/os";
import { afterEach, beforeEach, expect, test } from "vitest";
import { readFields } from "./json.ts";
import { takeLock } from "./lock.ts";
import { pathsOf } from "./paths.ts";
import { isOurs, keepSettings, type WantedSettings } from "./settings.ts";

const files = createFiles();
const machine = { hostname: "host", chooseSubnet: () => Promise.resolve("10.88.111.0/24") };
let dataDir: string;
let paths: ReturnType<typeof pathsOf>;

beforeEach(async () => {
  dataDir = join(tmpdir(), `settings-${randomUUID()}`);
  paths = pathsOf(dataDir);
  await files.ensureDirectory(dataDir);
});

afterEach(async () => {
  await files.remove(dataDir);
});

function keep(wanted: WantedSettings) {
  return keepSettings({ files, paths: pathsOf(dataDir) }, wanted, machine);
}

test("what nobody asked for gets a default, and stays", async () => {
  const first = await keep({});
  expect(first).toMatchObject({
    apiPort: 6443,
    nodeName: "host",
    podSubnet: "10.88.111.0/24",
    bridge: "patchbay0",
  });
  expect(first.virtApiPort).toBeGreaterThan(6443);
  expect(isOurs(await readFields(files, pathsOf(dataDir).settings))).toBe(true);
  expect(await keep({})).toEqual(first);
});

test("what is asked for later takes the place of what was kept", async () => {
  const first = await keep({ nodeName: "a", apiPort: 7443 });
  expect(await keep({ nodeName: "b" })).toEqual({ ...first, nodeName: "b" });
});

test.each<WantedSettings>([{ apiPort: 0 }, { apiPort: 70_000 }, { podSubnet: "10.0.0.0/8" }])(
  "%j is refused and nothing is written",
  async (wanted) => {
    await expect(keep(wanted)).rejects.toMatchObject({ code: "STANDALONE_SETTING_INVALID" });
    expect(await files.list(dataDir)).toEqual([]);
  },
);

test("one process holds the lock of a data directory", async () => {
  await files.ensureDirectory(paths.run, 0o700);
  const lock = takeLock(paths);
  expect(() => takeLock(paths)).toThrow(`runs already: process ${String(process.pid)}`);
  lock.release();
  takeLock(paths).release();
});
