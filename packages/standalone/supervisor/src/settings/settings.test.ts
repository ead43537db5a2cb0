// SPDX-License-Identifier: Apache-2.0
import { randomUUID } from "node:crypto";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createClock, createFiles } from "@patchbay/os";
import { isIssuedForAddress } from "@patchbay/pki";
import { afterEach, beforeEach, expect, test } from "vitest";
import { ensureServerCertificates } from "../data-dir/certificates.ts";
import { readFields } from "../data-dir/json.ts";
import { acquireLock } from "../supervisor/hold-machine.ts";
import { isMarked, KIND } from "../data-dir/ownership.ts";
import { buildPaths } from "../data-dir/paths.ts";
import { describeIgnoredFlags, type OtherMachine } from "./problems.ts";
import { readSettingsFile, storeSettings, type WantedSettings } from "./settings.ts";

const files = createFiles();
const machine = {
  hostname: "host",
  isPortFree: (port: number) => Promise.resolve(port !== 8080),
  listLinks: () => Promise.resolve(["lo", "eth0", "br-lan"]),
  listRoutes: () => Promise.resolve(["10.0.0.0/16"]),
  listMachines: (): Promise<readonly OtherMachine[]> => Promise.resolve([]),
  claimServiceSubnet: () => Promise.resolve(true),
};
let dataDir: string;
let paths: ReturnType<typeof buildPaths>;

beforeEach(async () => {
  dataDir = join(tmpdir(), `settings-${randomUUID()}`);
  paths = buildPaths(dataDir);
  await files.ensureDirectory(dataDir);
});

afterEach(async () => {
  await files.remove(dataDir);
});

function keep(wanted: WantedSettings) {
  return storeSettings({ files, paths: buildPaths(dataDir) }, wanted, machine);
}

test("stores defaults for unset settings", async () => {
  const first = await keep({});
  expect(first).toMatchObject({
    apiPort: 6443,
    nodeName: "host",
    podSubnet: "10.88.111.0/24",
    bridge: "patchbay0",
  });
  expect(first.virtApiPort).toBeGreaterThan(6443);
  expect(first.virtHandlerPort).toBeGreaterThan(first.virtApiPort);
  expect(isMarked(await readFields(files, buildPaths(dataDir).settings))).toBe(true);
  expect(await keep({})).toEqual(first);
});

test("selects a network for Services that no other machine has claimed", async () => {
  const listRoutes = () => Promise.resolve(["10.96.0.0/16"]);
  const claims: string[] = [];
  const claimServiceSubnet = (network: string) => Promise.resolve(claims.push(network) > 1);
  const deps = { files, paths };
  const host = { ...machine, listRoutes, claimServiceSubnet };
  expect(await storeSettings(deps, {}, host)).toMatchObject({ serviceSubnet: "10.98.0.0/16" });
  expect(claims).toEqual(["10.97.0.0/16", "10.98.0.0/16"]);
  await storeSettings(deps, {}, host);
  expect(claims).toHaveLength(2);
});

test("finds its claimed network for Services again after a crash", async () => {
  const routes = new Set<string>();
  const listRoutes = () => Promise.resolve([...routes]);
  const die = (network: string): Promise<boolean> => {
    routes.add(network);
    return Promise.reject(new Error("killed"));
  };
  const dying = { ...machine, listRoutes, claimServiceSubnet: die };
  await expect(storeSettings({ files, paths }, {}, dying)).rejects.toThrow("killed");
  const claims: string[] = [];
  const claimServiceSubnet = (network: string) => Promise.resolve(claims.push(network) > 0);
  const next = { ...machine, listRoutes, claimServiceSubnet };
  const { serviceSubnet } = await storeSettings({ files, paths }, {}, next);
  expect([...routes]).toEqual([serviceSubnet]);
  expect(claims).toEqual([]);
});

test("avoids the networks of a machine that is down", async () => {
  const settings = { podSubnet: "10.88.111.0/24", serviceSubnet: "10.96.0.0/16" };
  const other = { dataDir: "/other", isActive: false, settings };
  const host = { ...machine, listMachines: () => Promise.resolve([other]) };
  expect(await storeSettings({ files, paths }, {}, host)).toMatchObject({
    podSubnet: "10.88.112.0/24",
    serviceSubnet: "10.97.0.0/16",
  });
});

test("names the flag if no network for Services is free, and stores nothing", async () => {
  const host = { ...machine, claimServiceSubnet: () => Promise.resolve(false) };
  const failing = storeSettings({ files, paths }, {}, host);
  await expect(failing).rejects.toThrow(/--service-subnet/);
  expect(await files.readText(paths.settings)).toBeUndefined();
});

test("a new setting replaces the stored value", async () => {
  const first = await keep({ nodeName: "a", apiPort: 7443 });
  expect(await keep({ nodeName: "b" })).toEqual({ ...first, nodeName: "b" });
});

test("stores an API address for pods, and the API server's certificate contains it", async () => {
  expect(await keep({})).not.toHaveProperty("apiAddress");
  const clock = createClock();
  await files.ensureDirectory(paths.pki);
  const alone = (await ensureServerCertificates({ files, clock, paths })).apiServer;
  expect(isIssuedForAddress(alone.certPem, "192.0.2.7")).toBe(false);
  await keep({ apiAddress: "192.0.2.7" });
  expect(await keep({})).toMatchObject({ apiAddress: "192.0.2.7" });
  const { apiServer } = await ensureServerCertificates({ files, clock, paths });
  expect(isIssuedForAddress(apiServer.certPem, "192.0.2.7")).toBe(true);
  expect(isIssuedForAddress(apiServer.certPem, "127.0.0.1")).toBe(true);
});

test("stores the group of an unprivileged dataplane until root is set again", async () => {
  expect(await keep({})).not.toHaveProperty("dataplaneGroup");
  await keep({ dataplaneGroup: 1801 });
  expect(await keep({})).toMatchObject({ dataplaneGroup: 1801 });
  expect(await keep({ dataplaneGroup: 0 })).toMatchObject({ dataplaneGroup: 0 });
});

test("reads and preserves the command of the API server in the file", async () => {
  const apiServerCommand = ["node", "server.js"];
  await files.writeAtomic(paths.settings, JSON.stringify({ kind: KIND, apiServerCommand }));
  expect(await keep({})).toMatchObject({ apiServerCommand });
  expect(await keep({})).toMatchObject({ apiServerCommand });
});

test("rejects the settings of a newer version, and preserves them", async () => {
  const text = JSON.stringify({ kind: KIND, format: 2, apiPort: 7443 });
  await files.writeAtomic(paths.settings, text);
  await expect(keep({})).rejects.toMatchObject({
    code: "FORMAT_TOO_NEW",
    details: { path: dataDir, found: "2", supported: 1 },
  });
  expect(await files.readText(paths.settings)).toBe(text);
});

test("records the format of settings that version 0.1 wrote", async () => {
  await files.writeAtomic(paths.settings, JSON.stringify({ kind: KIND, apiPort: 7443 }));
  expect(await keep({})).toMatchObject({ apiPort: 7443 });
  expect(await readFields(files, paths.settings)).toMatchObject({ format: 1, apiPort: 7443 });
});

test.each([{ apiServerCommand: [] }, { apiServerCommand: "node" }, { apiServerCommand: [1] }])(
  "ignores the stored invalid command $apiServerCommand",
  async ({ apiServerCommand }) => {
    await files.writeAtomic(paths.settings, JSON.stringify({ kind: KIND, apiServerCommand }));
    expect(await keep({})).not.toHaveProperty("apiServerCommand");
  },
);

test.each<WantedSettings>([
  { dataplaneGroup: 107 },
  { apiPort: 0 },
  { apiPort: 70_000 },
  { podSubnet: "10.0.0.0/8" },
  { podSubnet: "10.300.1.0/24" },
  { podSubnet: "10.0.7.0/24" },
  { bridge: "sixteencharacter" },
  { bridge: "a/b" },
  { bridge: "br-lan" },
  { nodeName: "My Machine" },
  { apiAddress: "my-machine" },
  { apiAddress: "0.0.0.0" },
  { apiAddress: "127.0.0.1" },
])("rejects %j and writes nothing", async (wanted) => {
  await expect(keep(wanted)).rejects.toMatchObject({ code: "STANDALONE_SETTING_INVALID" });
  expect(await files.list(dataDir)).toEqual([]);
});

test.each<{ text: string; want: WantedSettings }>([
  { text: "{}", want: {} },
  { text: '{"apiPort":7443,"bridge":"br7"}', want: { apiPort: 7443, bridge: "br7" } },
])("an administrator's file with $text contains $want", async ({ text, want }) => {
  const file = join(dataDir, "machine.json");
  expect(await readSettingsFile(files, file)).toEqual({});
  await files.writeAtomic(file, text);
  expect(await readSettingsFile(files, file)).toEqual(want);
});

test.each([
  { text: "apiPort: 7443", reason: "it is not a JSON object" },
  { text: '{"apiPort":"7443","virtApiPort":1}', reason: "no settings: apiPort, virtApiPort" },
])("an administrator's file with $text is rejected: $reason", async ({ text, reason }) => {
  const file = join(dataDir, "machine.json");
  await files.writeAtomic(file, text);
  await expect(readSettingsFile(files, file)).rejects.toThrow(reason);
});

test("rejects a port in use", async () => {
  await expect(keep({ apiPort: 8080 })).rejects.toThrow("another program listens on it");
});

test("reports all causes at once", async () => {
  const wanted = { apiPort: 0, bridge: "eth0", podSubnet: "10.0.7.0/24" };
  await expect(keep(wanted)).rejects.toThrow(
    "the settings are invalid: --api-port 0: it must be from 1 to 65535; --pod-subnet 10.0.7.0/24: the host has a route to 10.0.0.0/16; --bridge eth0: the host already has a link of that name",
  );
});

test("accepts stored settings although they are in use by this machine", async () => {
  const first = await keep({ bridge: "own0", podSubnet: "10.9.9.0/24" });
  const links = { ...machine, listLinks: () => Promise.resolve(["own0"]) };
  const routes = { ...links, listRoutes: () => Promise.resolve(["10.9.9.0/24"]) };
  expect(await storeSettings({ files, paths }, { bridge: "own0" }, routes)).toEqual(first);
});

test("warns about settings that a running machine does not apply", () => {
  const stored = { apiPort: 6443, bridge: "patchbay0" };
  expect(describeIgnoredFlags({ apiPort: 6443 }, stored)).toEqual([]);
  expect(describeIgnoredFlags({ apiPort: 7443 }, stored)).toEqual([
    "--api-port 7443 is ignored: the machine is already up with 6443; stop it first with: patchbay down",
  ]);
});

test("only one process can lock a data directory", async () => {
  await files.ensureDirectory(paths.run, 0o700);
  const lock = acquireLock(paths);
  expect(() => acquireLock(paths)).toThrow(`is already running: process ${String(process.pid)}`);
  lock.release();
  acquireLock(paths).release();
});
