// SPDX-License-Identifier: Apache-2.0
// What is reported of a machine's processes, from notes in a directory of the test.
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createFiles, readBootId, readProcessStartTime } from "@patchbay/os";
import { afterEach, beforeEach, expect, test } from "vitest";
import { buildHealthSocketPath, buildPaths } from "./data-dir/paths.ts";
import { describeMachine } from "./describe.ts";

const files = createFiles();
let paths = buildPaths("/d");
let servers: Server[];
/** The note of a process that runs: this one. */
let note: { readonly pid: number; readonly startTime: string; readonly bootId: string };

beforeEach(async () => {
  paths = buildPaths(join(tmpdir(), `machine-${randomUUID()}`));
  servers = [];
  await files.ensureDirectory(paths.run);
  const startTime = (await readProcessStartTime(process.pid)) ?? "";
  note = { pid: process.pid, startTime, bootId: await readBootId(files) };
});

afterEach(async () => {
  for (const server of servers) server.close();
  await files.remove(paths.dataDir);
});

async function write(name: string, fields: object): Promise<void> {
  await files.writeAtomic(join(paths.run, `${name}.json`), JSON.stringify(fields));
}

/** A component that answers at its health socket with this status. */
async function answer(name: string, status: number): Promise<void> {
  const server = createServer((_request, response) => {
    response.writeHead(status).end();
  });
  servers.push(server);
  await once(server.listen(buildHealthSocketPath(paths, name)), "listening");
}

const DISK = {
  path: expect.stringContaining("machine-") as string,
  sizeBytes: expect.any(Number) as number,
  freeBytes: expect.any(Number) as number,
};

test("lists processes by name, with running and responding state", async () => {
  await write("net-agent", note);
  await write("apiserver", note);
  await write("virt-api", note);
  await write("containerd", { ...note, startTime: "1" });
  await write("virt-handler", { ...note, bootId: "another" });
  await write("kvm-probe", { bootId: note.bootId });
  await write("supervisor", { ...note, phase: "ready", steps: [], reason: "" });
  await files.writeAtomic(join(paths.run, "supervisor.lock"), "");
  await answer("apiserver", 200);
  await answer("virt-api", 500);
  await answer("virt-handler", 200);
  expect(await describeMachine(paths.dataDir)).toEqual({
    disk: DISK,
    phase: "ready",
    reason: "",
    processes: [
      { name: "apiserver", runs: true, isResponding: true },
      { name: "containerd", runs: false },
      { name: "net-agent", runs: true },
      { name: "virt-api", runs: true, isResponding: false },
      { name: "virt-handler", runs: false },
    ],
    readOnlyVolumes: [],
  });
});

test.each([
  { name: "no supervisor has run", state: undefined, want: { phase: "stopped", reason: "" } },
  {
    name: "the supervisor ended and reported the reason",
    state: { startTime: "1", phase: "failed", reason: "no disk" },
    want: { phase: "stopped", reason: "no disk" },
  },
  {
    name: "the supervisor runs and has failed",
    state: { phase: "failed", reason: "no disk" },
    want: { phase: "failed", reason: "no disk" },
  },
])("the supervisor's phase where $name", async ({ state, want }) => {
  if (state !== undefined) await write("supervisor", { ...note, steps: [], ...state });
  expect(await describeMachine(paths.dataDir)).toEqual({
    ...want,
    disk: DISK,
    processes: [],
    readOnlyVolumes: [],
  });
});
