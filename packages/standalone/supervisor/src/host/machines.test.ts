// SPDX-License-Identifier: Apache-2.0
import { readProcessStartTime } from "@patchbay/os";
import { createFakeFiles, type FakeFiles } from "@patchbay/os/testing";
import { beforeEach, expect, test } from "vitest";
import { buildPaths } from "../data-dir/paths.ts";
import { listOtherMachines, MACHINES_DIR, registerMachine, unregisterMachine } from "./machines.ts";
import { buildUnitText } from "./service-unit.ts";

const BOOT_ID = "/proc/sys/kernel/random/boot_id";
const LINK = "/etc/systemd/system/multi-user.target.wants/patchbay.service";
const SETTINGS = { bridge: "br9", podSubnet: "10.88.111.0/24" };
let files: FakeFiles;

async function addMachine(dataDir: string): Promise<void> {
  const text = JSON.stringify({ kind: "PatchbayStandalone", ...SETTINGS });
  await files.writeAtomic(buildPaths(dataDir).settings, text);
  await registerMachine(files, dataDir);
}

beforeEach(async () => {
  files = createFakeFiles();
  await files.writeAtomic(BOOT_ID, "boot-1\n");
  await addMachine("/one");
  await addMachine("/two");
});

test("finds the other machine while it is down", async () => {
  const two = { dataDir: "/two", isActive: false, settings: SETTINGS };
  expect(await listOtherMachines(files, "/one")).toEqual([two]);
});

test("finds that the other machine runs", async () => {
  const startTime = (await readProcessStartTime(process.pid)) ?? "";
  const state = { pid: process.pid, startTime, bootId: "boot-1", phase: "ready" };
  await files.writeAtomic(buildPaths("/two").state, JSON.stringify(state));
  expect(await listOtherMachines(files, "/one")).toMatchObject([{ isActive: true }]);
});

test("finds that the other machine starts at boot", async () => {
  const unit = buildUnitText(["/bin/node", JSON.stringify({ dataDir: "/two" })]);
  await files.writeAtomic("/etc/systemd/system/patchbay.service", unit);
  await files.writeAtomic(LINK, "");
  expect(await listOtherMachines(files, "/one")).toMatchObject([{ isActive: true }]);
  expect(await listOtherMachines(files, "/two")).toMatchObject([{ isActive: false }]);
});

test("finds a machine again whose file system was not mounted when another started", async () => {
  const { settings } = buildPaths("/two");
  const text = (await files.readText(settings)) ?? "";
  await files.remove("/two");
  await registerMachine(files, "/one");
  expect(await listOtherMachines(files, "/one")).toEqual([]);
  await files.writeAtomic(settings, text);
  expect(await listOtherMachines(files, "/one")).toMatchObject([{ dataDir: "/two" }]);
});

test("retains the record of a machine that starts while the last other one is deleted", async () => {
  await unregisterMachine(files, "/two");
  let started: Promise<void> | undefined;
  const startThree = (): Promise<void> => (started ??= addMachine("/three"));
  const list = files.list.bind(files);
  // It starts after the records were listed, if they are listed.
  files.list = async (directory) => {
    const names = await list(directory);
    await startThree();
    return names;
  };
  await unregisterMachine(files, "/one");
  await startThree();
  expect(await listOtherMachines(files, "/one")).toMatchObject([{ dataDir: "/three" }]);
});

test("does not find a deleted machine", async () => {
  await files.remove("/two");
  await unregisterMachine(files, "/two");
  expect(await listOtherMachines(files, "/one")).toEqual([]);
  expect(await files.list(MACHINES_DIR)).toHaveLength(1);
});
