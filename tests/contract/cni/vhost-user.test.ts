// SPDX-License-Identifier: Apache-2.0
// The vhost-user CNI plugin, called as by a runtime.
import { spawnSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";

const PLUGIN = join(
  import.meta.dirname,
  "../../../packages/adapters/cni/build/patchbay-vhost-user",
);
const ID = `contract-cni-${String(process.pid)}`;
const DIRECTORY = `/run/patchbay/vhost-user/${ID}`;
const INFO_DIRECTORY = "/var/run/k8s.cni.cncf.io/devinfo/cni";
const info = `${INFO_DIRECTORY}/default-fast-${ID}_pod1`;

let base = "";

beforeAll(() => {
  base = mkdtempSync(join(tmpdir(), "vhost-cni-"));
  mkdirSync(DIRECTORY, { recursive: true });
  symlinkSync(base, `${DIRECTORY}-link`);
});

afterAll(() => {
  for (const path of [base, DIRECTORY, `${DIRECTORY}-link`]) rmSync(path, { recursive: true });
  rmSync(info, { force: true });
});

function call(command: string, config: object | string, env: Record<string, string> = {}) {
  const { stdout, status } = spawnSync(PLUGIN, {
    input: typeof config === "string" ? config : JSON.stringify(config),
    encoding: "utf8",
    env: {
      CNI_COMMAND: command,
      CNI_CONTAINERID: ID,
      CNI_NETNS: "/run/netns/box",
      CNI_IFNAME: "pod1",
      CNI_ARGS: `IgnoreUnknown=1;K8S_POD_UID=${ID};K8S_POD_NAME=p`,
      ...env,
    },
  });
  return { status, said: stdout === "" ? undefined : (JSON.parse(stdout) as unknown) };
}

function configOf(more: object = {}): object {
  return { cniVersion: "1.0.0", name: "fast", runtimeConfig: { CNIDeviceInfoFile: info }, ...more };
}

test.each([
  { name: "of the pod's uid", config: {} },
  {
    name: "of its device, even if the configuration names another",
    config: { x: [{ deviceID: "../.." }], y: 'a"b', deviceID: ID },
  },
])("ADD reports a socket in the directory $name, and DEL removes the report", ({ config }) => {
  const env = "deviceID" in config ? { CNI_ARGS: "" } : {};
  expect(call("ADD", configOf(config), env)).toEqual({
    status: 0,
    said: { cniVersion: "1.0.0", interfaces: [{ name: "pod1", sandbox: "/run/netns/box" }] },
  });
  expect(JSON.parse(readFileSync(info, "utf8"))).toEqual({
    type: "vhost-user",
    version: "1.1.0",
    "vhost-user": { mode: "client", path: `${DIRECTORY}/pod1.sock` },
  });
  expect(call("CHECK", configOf(config), env).status).toBe(0);
  for (let turn = 0; turn < 2; turn += 1) expect(call("DEL", configOf(config), env).status).toBe(0);
  expect(existsSync(info)).toBe(false);
  expect(existsSync(DIRECTORY)).toBe(true);
});

test("answers VERSION without a configuration", () => {
  expect(call("VERSION", "").said).toMatchObject({ cniVersion: "1.1.0" });
});

test.each<{ name: string; config?: object | string; env?: Record<string, string>; code: number }>([
  { name: "a pod without a directory", env: { CNI_ARGS: "K8S_POD_UID=nobody" }, code: 100 },
  { name: "a directory that is a link", env: { CNI_ARGS: `K8S_POD_UID=${ID}-link` }, code: 100 },
  {
    name: "a device path that leaves the directory",
    config: configOf({ deviceID: "../etc" }),
    code: 7,
  },
  { name: "an escape", config: `{"cniVersion":"1.0.0","deviceID":"a\\u002e"}`, code: 7 },
  { name: "a socket of no pod", env: { CNI_ARGS: "" }, code: 4 },
  { name: "a NIC that is a path", env: { CNI_IFNAME: "../x" }, code: 4 },
  { name: "a missing file for the report", config: { cniVersion: "1.0.0" }, code: 7 },
  { name: "no version", config: {}, code: 7 },
  { name: "invalid JSON", config: `{"cniVersion":`, code: 7 },
])("ADD rejects $name", ({ config = configOf(), env, code }) => {
  expect(call("ADD", config, env)).toMatchObject({ status: 1, said: { code } });
  expect(existsSync(info)).toBe(false);
});

function withInfo(path: string): object {
  return configOf({ runtimeConfig: { CNIDeviceInfoFile: path } });
}

test.each([
  { name: "in another directory", pathOf: () => join(base, `default-fast-${ID}_pod1`) },
  { name: "above the directory", pathOf: () => `${INFO_DIRECTORY}/../default-fast-${ID}_pod1` },
  { name: "of another attachment", pathOf: () => `${INFO_DIRECTORY}/default-fast-other_pod1` },
])("neither writes nor removes a file $name", ({ pathOf }) => {
  const path = pathOf();
  mkdirSync(INFO_DIRECTORY, { recursive: true });
  expect(call("ADD", withInfo(path))).toMatchObject({ status: 1, said: { code: 7 } });
  expect(existsSync(path)).toBe(false);
  // The text that the plugin itself writes.
  expect(call("ADD", configOf()).status).toBe(0);
  writeFileSync(path, readFileSync(info));
  expect(call("DEL", withInfo(path)).status).toBe(0);
  expect(existsSync(path)).toBe(true);
  rmSync(path);
  call("DEL", configOf());
});

test.each([
  {
    name: "another program's file",
    make: () => {
      writeFileSync(info, "{}");
    },
  },
  {
    name: "a link",
    make: () => {
      symlinkSync(join(base, "target"), info);
    },
  },
])("neither replaces nor removes $name", ({ make }) => {
  writeFileSync(join(base, "target"), "text");
  make();
  const before = readFileSync(info, "utf8");
  expect(call("ADD", configOf())).toMatchObject({ status: 1, said: { code: 5 } });
  expect(call("DEL", configOf()).status).toBe(0);
  expect(readFileSync(info, "utf8")).toBe(before);
  rmSync(info);
});
