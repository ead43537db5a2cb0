// SPDX-License-Identifier: Apache-2.0
// What plugins are told for CHECK, STATUS and GC, and which of them are asked.
import { AppError } from "@patchbay/base";
import type {
  AttachmentRequest,
  Command,
  CommandResult,
  NetworkConfigList,
  ProcessRunner,
} from "@patchbay/core/interfaces";
import { describe, expect, test } from "vitest";
import { createCni } from "./plugins.ts";

interface Call {
  readonly plugin: string;
  readonly command: string | undefined;
  readonly env: Readonly<Record<string, string>>;
  readonly config: Readonly<Record<string, unknown>>;
}

const SPOKEN: Readonly<Record<string, readonly string[]>> = {
  old: ["0.4.0", "1.0.0"],
  new: ["1.0.0", "1.1.0"],
  newer: ["1.0.0", "1.1.0"],
  bridge: ["1.0.0"],
};

/** Plugins that do as they are asked, but for those that fail with a code. */
function machine(codes: Readonly<Record<string, number>> = {}) {
  const calls: Call[] = [];
  const run = ({ argv, env = {}, stdin = "" }: Command): Promise<CommandResult> => {
    const plugin = argv[0].replace("/b/", "");
    const supportedVersions = SPOKEN[plugin];
    const toResult = (out: unknown, exitCode = 0): Promise<CommandResult> =>
      Promise.resolve({ exitCode, stdout: JSON.stringify(out), stderr: "" });
    if (supportedVersions === undefined) {
      return Promise.reject(new AppError("OS_PROGRAM_MISSING", { program: plugin }));
    }
    const { CNI_COMMAND: command } = env;
    if (command === "VERSION") return toResult({ cniVersion: "1.0.0", supportedVersions });
    // The test's own configurations are objects.
    calls.push({ plugin, command, env, config: JSON.parse(stdin) as Call["config"] });
    const code = codes[plugin];
    return code === undefined ? toResult("") : toResult({ code, msg: "no" }, 1);
  };
  const runner: ProcessRunner = { run, killProcessFamily: () => Promise.resolve() };
  return { calls, cni: createCni({ runner, binDirs: ["/b"], family: "test" }) };
}

function buildConfig(
  more: Partial<NetworkConfigList>,
  ...types: readonly string[]
): NetworkConfigList {
  return { cniVersion: "1.1.0", name: "blue", ...more, plugins: types.map((type) => ({ type })) };
}

function buildRequest(config: NetworkConfigList): AttachmentRequest {
  return {
    containerId: "box",
    netnsPath: "/run/netns/box",
    interfaceName: "net1",
    config,
    args: [["IgnoreUnknown", "1"]],
    capabilityArgs: {},
  };
}

const RESULT = { cniVersion: "1.0.0", interfaces: [{ name: "net1" }] };

describe("CHECK", () => {
  test("runs all plugins in order, with the result of ADD and its version", async () => {
    const { calls, cni } = machine();
    expect(await cni.check(buildRequest(buildConfig({}, "new", "old")), RESULT)).toBe(true);
    const common = { name: "blue", cniVersion: "1.0.0", prevResult: RESULT };
    expect(calls.map(({ config }) => config)).toEqual([
      { ...common, type: "new" },
      { ...common, type: "old" },
    ]);
    expect(calls[0]?.env).toMatchObject({
      CNI_COMMAND: "CHECK",
      CNI_CONTAINERID: "box",
      CNI_NETNS: "/run/netns/box",
      CNI_IFNAME: "net1",
      CNI_PATH: "/b",
      CNI_ARGS: "IgnoreUnknown=1",
    });
  });

  test("omits the bridge's MAC for plugin bridge, because it changes with the ports", async () => {
    const { calls, cni } = machine();
    const host = { name: "br0", mac: "02:00:00:00:00:01" };
    const nic = { name: "net1", mac: "02:00:00:00:00:02", sandbox: "/run/netns/box" };
    const ipam = { type: "host-local" };
    const plugins = [{ type: "bridge", ipam }, { type: "new" }];
    const prevResult = { ...RESULT, interfaces: [host, nic] };
    await cni.check(buildRequest({ ...buildConfig({}), plugins }), prevResult);
    expect(calls.map(({ config }) => config["prevResult"])).toEqual([
      { ...RESULT, interfaces: [{ name: "br0", mac: "" }, nic] },
      prevResult,
    ]);
  });

  test("stops at the first plugin that fails", async () => {
    const { calls, cni } = machine({ new: 999 });
    await expect(
      cni.check(buildRequest(buildConfig({}, "new", "old")), RESULT),
    ).rejects.toMatchObject({
      code: "CNI_PLUGIN_FAILED",
      details: { plugin: "new", command: "CHECK", cniCode: 999 },
    });
    expect(calls).toHaveLength(1);
  });

  test.each([
    { name: "whose configuration disables it", config: { disableCheck: true }, result: RESULT },
    { name: "with a CNI version without CHECK", config: {}, result: { cniVersion: "0.3.1" } },
  ])("is skipped for an attachment $name", async ({ config, result }) => {
    const { calls, cni } = machine();
    expect(await cni.check(buildRequest(buildConfig(config, "new")), result)).toBe(false);
    expect(calls).toEqual([]);
  });

  test("is skipped for a bridge without IPAM, which always fails", async () => {
    const { calls, cni } = machine({ bridge: 999 });
    expect(await cni.check(buildRequest(buildConfig({}, "bridge")), RESULT)).toBe(false);
    expect(await cni.check(buildRequest(buildConfig({}, "bridge", "old")), RESULT)).toBe(true);
    expect(calls.map(({ plugin }) => plugin)).toEqual(["old"]);
    const plugins = [{ type: "bridge", ipam: { type: "host-local" } }];
    const request = buildRequest({ ...buildConfig({}), plugins });
    await expect(cni.check(request, RESULT)).rejects.toMatchObject({ code: "CNI_PLUGIN_FAILED" });
  });
});

describe("STATUS", () => {
  test("runs the plugins that support it, with their version, until one fails", async () => {
    const { calls, cni } = machine({ new: 50 });
    await expect(cni.status(buildConfig({}, "old", "new", "newer"))).rejects.toMatchObject({
      code: "CNI_PLUGIN_FAILED",
      details: { plugin: "new", command: "STATUS", cniCode: 50 },
    });
    expect(calls.map(({ config }) => config)).toEqual([
      { name: "blue", cniVersion: "1.1.0", type: "new" },
    ]);
    expect(calls[0]?.env).toEqual({
      CNI_COMMAND: "STATUS",
      CNI_PATH: "/b",
      PATH: expect.any(String) as string,
    });
  });

  test.each([
    { name: "an older configuration", config: buildConfig({ cniVersion: "1.0.0" }, "new") },
    { name: "older plugins", config: buildConfig({}, "old") },
  ])("is skipped for $name", async ({ config }) => {
    const { calls, cni } = machine();
    expect(await cni.status(config)).toBe(false);
    expect(calls).toEqual([]);
  });
});

describe("GC", () => {
  const valid = [{ containerId: "box", interfaceName: "net1" }];

  test("passes the attachments to all plugins that support it, even if one fails", async () => {
    const { calls, cni } = machine({ new: 100 });
    const config = buildConfig({}, "new", "old", "newer");
    await expect(cni.gc(config, () => Promise.resolve(valid))).rejects.toMatchObject({
      details: { plugin: "new", command: "GC", cniCode: 100 },
    });
    const list = [{ containerID: "box", ifname: "net1" }];
    const common = { name: "blue", cniVersion: "1.1.0" };
    const attachments = { "cni.dev/valid-attachments": list, "cni.dev/attachments": list };
    expect(calls.map((call) => call.config)).toEqual([
      { ...common, type: "new", ...attachments },
      { ...common, type: "newer", ...attachments },
    ]);
  });

  test("is skipped if the attachments cannot be listed", async () => {
    const { calls, cni } = machine();
    const unknown = (): Promise<never> => Promise.reject(new Error("unreadable"));
    await expect(cni.gc(buildConfig({}, "new"), unknown)).rejects.toThrow("unreadable");
    expect(calls).toEqual([]);
  });

  test.each([
    { name: "a configuration that disables it", config: buildConfig({ disableGC: true }, "new") },
    { name: "an older configuration", config: buildConfig({ cniVersion: "1.0.0" }, "new") },
    { name: "older plugins", config: buildConfig({}, "old") },
  ])("is skipped for $name, and nothing is listed", async ({ config }) => {
    const { calls, cni } = machine();
    const listed = cni.gc(config, () => Promise.reject(new Error("listed")));
    expect(await listed).toBe(false);
    expect(calls).toEqual([]);
  });
});
