// SPDX-License-Identifier: Apache-2.0
import { readProcessStartTime } from "@patchbay/os";
import { createFakeFiles, type FakeFiles } from "@patchbay/os/testing";
import { beforeEach, expect, test } from "vitest";
import { buildPaths } from "./data-dir/paths.ts";
import { buildContainerdLayout } from "./runtime/own-containerd.ts";
import { isRecordedRunning } from "./supervisor/state.ts";
import { hasRemains } from "./down.ts";

const BOOT_ID = "/proc/sys/kernel/random/boot_id";
const paths = buildPaths("/data");
let files: FakeFiles;
let own: { readonly pid: number; readonly startTime: string; readonly bootId: string };

beforeEach(async () => {
  files = createFakeFiles();
  await files.writeAtomic(BOOT_ID, "boot-2\n");
  const startTime = (await readProcessStartTime(process.pid)) ?? "";
  own = { pid: process.pid, startTime, bootId: "boot-2" };
});

function record(file: string, changes: object = {}): Promise<void> {
  return files.writeAtomic(`${paths.run}/${file}`, JSON.stringify({ ...own, ...changes }));
}

const ENDED = { startTime: "1" };
const EARLIER_BOOT = { bootId: "boot-1" };

test.each([
  { name: "that is running", changes: {}, want: true },
  { name: "whose PID was reused", changes: ENDED, want: false },
  { name: "of an earlier boot", changes: EARLIER_BOOT, want: false },
  { name: "without a PID", changes: { pid: "1" }, want: false },
])("a recorded process $name: $want", async ({ changes, want }) => {
  await record("virt-api.json", changes);
  expect(await isRecordedRunning(files, `${paths.run}/virt-api.json`)).toBe(want);
  expect(await hasRemains(files, paths)).toBe(want);
});

test("no process runs without a file", async () => {
  expect(await isRecordedRunning(files, `${paths.run}/virt-api.json`)).toBe(false);
});

/** A process in the table of the host, which is root's unless `uid` is given. */
async function putProcess(pid: number, argv: readonly string[], uid = 0): Promise<void> {
  const user = String(uid);
  const status = `Name:\tshim\nPPid:\t1\nUid:\t${user}\t${user}\t${user}\t${user}\nNSpid:\t${String(pid)}\n`;
  await files.writeAtomic(`/proc/${String(pid)}/status`, status);
  await files.writeAtomic(`/proc/${String(pid)}/cmdline`, argv.map((one) => `${one}\0`).join(""));
}

const shim = (socket: string) => ["/usr/bin/containerd-shim-runc-v2", "-address", socket];

test.each<{ name: string; arrange: () => Promise<void>; want: boolean }>([
  { name: "nothing", arrange: () => Promise.resolve(), want: false },
  {
    name: "a running component among ended components",
    arrange: async () => {
      await record("net-agent.json", ENDED);
      await record("virt-api.json", EARLIER_BOOT);
      await record("virt-handler.json");
    },
    want: true,
  },
  { name: "the supervisor's own file", arrange: () => record("supervisor.json"), want: false },
  { name: "a component's log", arrange: () => record("virt-api.out"), want: false },
  {
    name: "a pod",
    arrange: () => files.ensureDirectory(`${paths.pods}/uid-1`),
    want: true,
  },
  {
    name: "a shim of its containerd",
    arrange: () => putProcess(77, shim(buildContainerdLayout(paths).socket)),
    want: true,
  },
  {
    name: "a shim of another containerd",
    arrange: () => putProcess(77, shim("/run/containerd/containerd.sock")),
    want: false,
  },
])("$name must be ended: $want", async ({ arrange, want }) => {
  await arrange();
  expect(await hasRemains(files, paths)).toBe(want);
});
