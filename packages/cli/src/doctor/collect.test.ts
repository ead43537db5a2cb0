// SPDX-License-Identifier: Apache-2.0
// The data directory of the machine that a kubeconfig leads to.
import { copyFile, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createFiles } from "@patchbay/os";
import { afterEach, beforeEach, expect, test } from "vitest";
import { findMachineDir } from "./collect.ts";

const [SERVER, OTHER_SERVER] = ["https://127.0.0.1:6443", "https://127.0.0.1:7443"];

let root = "";

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "patchbay-machine-dir-"));
});

afterEach(async () => {
  await rm(root, { recursive: true });
});

async function machine(name: string, server: string): Promise<string> {
  const directory = join(root, name);
  await mkdir(join(directory, "run"), { recursive: true });
  const config = {
    apiVersion: "v1",
    kind: "Config",
    "current-context": "c",
    contexts: [{ name: "c", context: { cluster: "c", user: "u" } }],
    clusters: [{ name: "c", cluster: { server } }],
    users: [{ name: "u", user: { token: "t" } }],
  };
  await writeFile(join(directory, "kubeconfig"), JSON.stringify(config));
  return directory;
}

test("the directory of the kubeconfig comes before the default data directory", async () => {
  const own = await machine("own", SERVER);
  const dataDir = await machine("default", OTHER_SERVER);
  const hints = { kubeconfig: join(own, "kubeconfig"), server: SERVER, dataDir };
  expect(await findMachineDir(createFiles(), hints)).toBe(own);
});

test("a copied kubeconfig leads to the data directory with the same API server", async () => {
  const dataDir = await machine("default", SERVER);
  const kubeconfig = join(root, "copy");
  await copyFile(join(dataDir, "kubeconfig"), kubeconfig);
  expect(await findMachineDir(createFiles(), { kubeconfig, server: SERVER, dataDir })).toBe(
    dataDir,
  );
});

test("a data directory of another machine, or none, is not taken", async () => {
  const dataDir = await machine("default", OTHER_SERVER);
  const kubeconfig = join(root, "copy");
  for (const directory of [dataDir, join(root, "missing")]) {
    const hints = { kubeconfig, server: SERVER, dataDir: directory };
    expect(await findMachineDir(createFiles(), hints)).toBeUndefined();
  }
});
