// SPDX-License-Identifier: Apache-2.0
// Installation into the container runtime's directories.
import { parseJson } from "@patchbay/api/json";
import { createFakeFiles, type FakeFiles } from "@patchbay/os/testing";
import { createFakeLogger, type FakeLogger } from "@patchbay/telemetry/testing";
import { beforeEach, expect, test } from "vitest";
import { installPlugin, removePlugin, type InstallDeps } from "./installation.ts";

const places = { binDir: "/bin", configDir: "/net.d", socketPath: "/run/net-agent/cni.sock" };
const OURS = "/net.d/00-patchbay.conflist";
let files: FakeFiles;
let log: FakeLogger;
let deps: InstallDeps;

beforeEach(async () => {
  files = createFakeFiles();
  log = createFakeLogger();
  const copyProgram = async (path: string): Promise<void> => {
    // The program must exist before the configuration.
    expect(await files.exists(OURS)).toBe(false);
    await files.writeAtomic(path, "program");
  };
  deps = { files, log, copyProgram };
  const flannel = { name: "cbr0", plugins: [{ type: "flannel" }] };
  await files.writeAtomic("/net.d/10-flannel.conflist", JSON.stringify(flannel));
});

test("installs the program with a configuration that names the socket", async () => {
  await installPlugin(places, deps);
  expect(await files.readText("/bin/patchbay-cni")).toBe("program");
  expect(parseJson(await files.readText(OURS))).toMatchObject({
    cniVersions: ["1.0.0", "1.1.0"],
    plugins: [
      { type: "patchbay-cni", socket: places.socketPath, capabilities: { portMappings: true } },
    ],
  });
  expect(log.lines.filter(({ level }) => level === "warn")).toEqual([]);
});

test("removes both, may be repeated, and leaves the cluster's own configuration", async () => {
  await installPlugin(places, deps);
  await removePlugin(places, deps);
  await removePlugin(places, deps);
  expect(await files.list("/net.d")).toEqual(["10-flannel.conflist"]);
  expect(await files.list("/bin")).toEqual([]);
});

test.each([
  {
    name: "a plugin list",
    file: "70-multus.conflist",
    config: { plugins: [{ type: "multus-shim" }] },
  },
  { name: "a single plugin", file: "00-multus.conf", config: { type: "multus" } },
])("installs nothing beside Multus ($name) and names its file", async ({ file, config }) => {
  await files.writeAtomic(`/net.d/${file}`, JSON.stringify(config));
  await expect(installPlugin(places, deps)).rejects.toMatchObject({
    code: "CNI_RUNTIME_TAKEN",
    message: expect.stringContaining(`/net.d/${file}`) as string,
  });
  expect(await files.exists(OURS)).toBe(false);
  expect(await files.list("/bin")).toEqual([]);
});

test("warns of a configuration that the runtime uses first", async () => {
  await files.writeAtomic("/net.d/00-a.conf", '{"type":"ptp"}');
  await files.writeAtomic("/net.d/00-broken.conf", "{");
  await files.writeAtomic("/net.d/00-notes.txt", '{"type":"multus"}');
  await installPlugin(places, deps);
  const told = log.lines.filter(({ level }) => level === "warn").map(({ fields }) => fields);
  expect(told).toEqual([{ path: "/net.d/00-a.conf" }, { path: "/net.d/00-broken.conf" }]);
});
