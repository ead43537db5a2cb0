// SPDX-License-Identifier: Apache-2.0
// An upgrade of the machine: `patchbay upgrade` takes over processes and files of version 0.1 while guests run.
import { execFile } from "node:child_process";
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { isJsonObject, type JsonObject } from "@patchbay/api/json";
import { eventually } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  addInterface,
  CHANGE_MS,
  expectGone,
  expectReady,
  machine,
  ping,
  removeInterface,
  setAddress,
} from "../machine.ts";
import { Pings } from "../network/pings.ts";
import { ROOT } from "../standalone.ts";

const NIC = { name: "upgraded", network: "blue" };
const ADDRESSES = { alpha: "10.9.46.1", beta: "10.9.46.2" };
const VMS = ["alpha", "beta"] as const;
const SETTINGS = join(machine.dataDir, "standalone.json");
const RUN = join(machine.dataDir, "run");
const SUPERVISOR = join(RUN, "supervisor.json");
/** Pings during an upgrade: one every 10 ms for several seconds. */
const PINGS_MIN = 100;

function readJson(path: string): JsonObject {
  const value: unknown = JSON.parse(readFileSync(path, "utf8"));
  if (isJsonObject(value)) return value;
  throw new Error(`${path} is no object`);
}

function writeJson(path: string, value: JsonObject): void {
  writeFileSync(path, `${JSON.stringify(value)}\n`);
}

function removeFields(path: string, ...names: readonly string[]): void {
  const remaining = Object.entries(readJson(path)).filter(([name]) => !names.includes(name));
  writeJson(path, Object.fromEntries(remaining));
}

/** Components that the supervisor recorded, without itself. */
function listComponents(): readonly string[] {
  return readdirSync(RUN)
    .filter((name) => name.endsWith(".json") && name !== "supervisor.json")
    .filter((name) => Array.isArray(readJson(join(RUN, name))["argv"]))
    .map((name) => name.replace(/\.json$/, ""));
}

/** Makes the running machine one of version 0.1: programs of another path, records without a build, and settings without a format. */
function becomeOlder(): void {
  for (const component of listComponents()) {
    const path = join(RUN, `${component}.json`);
    const state = readJson(path);
    const [, ...args] = state["argv"] as readonly string[]; // as checked above
    writeJson(path, { ...state, argv: ["/opt/patchbay-0.1/bin/node", ...args] });
    removeFields(path, "build");
  }
  removeFields(SUPERVISOR, "version", "build");
  removeFields(SETTINGS, "format");
}

/** Runs `patchbay upgrade` while this process continues to ping. Returns its report. */
async function upgrade(): Promise<string> {
  const program = join(ROOT, "node_modules/.bin/patchbay");
  const argv = ["--data-dir", machine.dataDir, "upgrade"];
  return (await promisify(execFile)(program, argv)).stdout;
}

async function endSupervisor(): Promise<void> {
  const pid = machine.pidOf("supervisor");
  process.kill(pid, "SIGKILL");
  await eventually(() => !isAlive(pid), { withinMs: CHANGE_MS });
}

function isAlive(pid: number): boolean {
  try {
    return !readFileSync(`/proc/${String(pid)}/stat`, "utf8").includes(") Z ");
  } catch {
    return false;
  }
}

function identityOf(vm: string) {
  const vmi = machine.findVmi(vm);
  return {
    uid: vmi?.metadata.uid,
    phase: vmi?.status?.phase,
    pods: vmi?.status?.activePods,
    boots: machine
      .console(vm)
      .lines()
      .filter((line) => line.includes("guest ready")).length,
  };
}

beforeAll(async () => {
  for (const vm of VMS) addInterface(vm, NIC);
  for (const vm of VMS) await setAddress(vm, NIC.name, `${ADDRESSES[vm]}/24`);
  await eventually(async () => (await ping("alpha", ADDRESSES.beta, { count: 1 })).received === 1, {
    withinMs: CHANGE_MS,
  });
});

afterAll(async () => {
  for (const vm of VMS) removeInterface(vm, NIC.name);
  for (const vm of VMS) await expectGone(vm, NIC.name);
});

test("restarts every service while the guests run and lose no packet", async () => {
  const components = listComponents();
  const before = { vms: VMS.map(identityOf), pids: components.map((name) => machine.pidOf(name)) };
  const pings = await Pings.start(machine.console("alpha"), ADDRESSES.beta);
  becomeOlder();
  const report = await upgrade();
  const sent = await pings.stop(); // passes only if each ping was answered
  process.stdout.write(`upgrade: ${String(sent)} pings, none lost\n`);
  expect(sent).toBeGreaterThan(PINGS_MIN);
  expect(report).toMatch(/^version unknown before, [\d.]+ now; .*; (\d+) of \1 pods still run$/m);
  const pids = components.map((name) => machine.pidOf(name));
  expect(pids.filter((pid, index) => pid === before.pids[index])).toEqual([]);
  expect(VMS.map(identityOf)).toEqual(before.vms);
  expect(readJson(SETTINGS)).toMatchObject({ kind: "PatchbayStandalone", format: 1 });
});

test("an older program does not replace the services of a newer one", () => {
  const text = readFileSync(SUPERVISOR, "utf8");
  const before = machine.pidOf("supervisor");
  try {
    writeJson(SUPERVISOR, { ...readJson(SUPERVISOR), version: "99.0.0", build: "newer" });
    const { code, stderr } = machine.try(["patchbay", "--data-dir", machine.dataDir, "upgrade"]);
    expect(code).toBe(1);
    expect(stderr).toContain("the machine runs 99.0.0, and this program is the older");
  } finally {
    writeFileSync(SUPERVISOR, text);
  }
  expect(machine.pidOf("supervisor")).toBe(before);
});

test("the upgraded services unplug a NIC that the older ones plugged, and plug another", async () => {
  removeInterface("alpha", NIC.name);
  await expectGone("alpha", NIC.name);
  addInterface("alpha", NIC);
  await expectReady("alpha", NIC.name);
  await setAddress("alpha", NIC.name, `${ADDRESSES.alpha}/24`);
  await eventually(async () => (await ping("alpha", ADDRESSES.beta)).received === 3, {
    withinMs: CHANGE_MS,
  });
});

test("an older version refuses the directory of a newer one, and the guests run on", async () => {
  const before = VMS.map(identityOf);
  const text = readFileSync(SETTINGS, "utf8");
  await endSupervisor();
  try {
    writeJson(SETTINGS, { ...readJson(SETTINGS), format: 2 });
    const { code, stderr } = machine.try(["patchbay", "--data-dir", machine.dataDir, "up"]);
    expect({ code, stderr }).toMatchObject({
      code: 1,
      stderr: expect.stringContaining(
        `${machine.dataDir} has format 2, but this version of Patchbay supports formats up to 1`,
      ) as string,
    });
  } finally {
    writeFileSync(SETTINGS, text);
    machine.patchbay("up");
  }
  expect(VMS.map(identityOf)).toEqual(before);
});

test("an older net-agent refuses the journal of a newer one, by a reason in the machine's log", async () => {
  const path = join(machine.dataDir, "net-agent/format.json");
  writeFileSync(path, '{"format":2}\n');
  try {
    process.kill(machine.pidOf("net-agent"), "SIGKILL");
    const log = join(machine.dataDir, "logs/net-agent.log");
    const reason = `${machine.dataDir}/net-agent has format 2`;
    await eventually(() => readFileSync(log, "utf8").includes(reason), { withinMs: CHANGE_MS });
  } finally {
    rmSync(path);
  }
  addInterface("beta", { name: "after", network: "red" });
  await expectReady("beta", "after");
  removeInterface("beta", "after");
  await expectGone("beta", "after");
});
