// SPDX-License-Identifier: Apache-2.0
import { AppError } from "@patchbay/core";
import type { AttachmentRequest, Command, CommandResult, ProcessRunner } from "@patchbay/ports";
import { describe, expect, test } from "vitest";
import { createCni } from "./plugin-chain.ts";

interface Call {
  readonly path: string;
  readonly env: Readonly<Record<string, string>>;
  readonly config: Readonly<Record<string, unknown>>;
}

type Answer = (call: Call) => { readonly exitCode?: number; readonly out: unknown } | AppError;

const VERSION = {
  out: {
    cniVersion: "1.0.0",
    supportedVersions: ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0"],
  },
};

/** A machine whose plugins in `/b` answer; `/a` has none. */
function machine(
  answer: Answer,
  version: { readonly exitCode?: number; readonly out: unknown } = VERSION,
): { readonly runner: ProcessRunner; readonly calls: Call[] } {
  const calls: Call[] = [];
  const run = ({ argv: [path], env = {}, stdin = "" }: Command): Promise<CommandResult> => {
    if (!path.startsWith("/b/")) {
      return Promise.reject(new AppError("OS_PROGRAM_MISSING", { program: path }));
    }
    if (env["CNI_COMMAND"] === "VERSION") {
      const { exitCode = 0, out } = version;
      return Promise.resolve({ exitCode, stdout: JSON.stringify(out), stderr: "" });
    }
    // The test's own configurations are objects.
    const call = { path, env, config: JSON.parse(stdin) as Call["config"] };
    calls.push(call);
    const said = answer(call);
    if (said instanceof AppError) return Promise.reject(said);
    const stdout = typeof said.out === "string" ? said.out : JSON.stringify(said.out);
    return Promise.resolve({ exitCode: said.exitCode ?? 0, stdout, stderr: "" });
  };
  return { runner: { run, endFamily: () => Promise.resolve() }, calls };
}

const REQUEST: AttachmentRequest = {
  containerId: "box1",
  netnsPath: "/run/netns/box1",
  interfaceName: "net1",
  config: {
    cniVersion: "1.1.0",
    name: "blue",
    plugins: [
      { type: "first", capabilities: { mac: true } },
      { type: "second", keep: true },
    ],
  },
  args: [
    ["IgnoreUnknown", "1"],
    ["K8S_POD_NAME", "p"],
  ],
  capabilityArgs: { mac: "02:00:00:00:00:01" },
};
const RESULT = { cniVersion: "1.0.0", interfaces: [{ name: "net1" }] };

const cniOf = (runner: ProcessRunner): ReturnType<typeof createCni> =>
  createCni({ runner, binDirs: ["/a", "/b"], family: "test" });

describe("ADD", () => {
  test("runs the plugins in order, each with the result of the one before it", async () => {
    const { runner, calls } = machine(({ path }) => ({ out: { ...RESULT, dns: { path } } }));
    const result = await cniOf(runner).add(REQUEST);
    expect(result).toEqual({ ...RESULT, dns: { path: "/b/second" } });
    const common = { name: "blue", cniVersion: "1.0.0" };
    const prevResult = { ...RESULT, dns: { path: "/b/first" } };
    expect(calls.map((call) => call.config)).toEqual([
      {
        ...common,
        type: "first",
        capabilities: { mac: true },
        runtimeConfig: { mac: "02:00:00:00:00:01" },
      },
      { ...common, type: "second", keep: true, prevResult },
    ]);
    expect(calls[0]?.env).toMatchObject({
      CNI_COMMAND: "ADD",
      CNI_CONTAINERID: "box1",
      CNI_NETNS: "/run/netns/box1",
      CNI_IFNAME: "net1",
      CNI_ARGS: "IgnoreUnknown=1;K8S_POD_NAME=p",
      CNI_PATH: "/a:/b",
    });
  });

  test("stops at the first plugin that fails", async () => {
    const { runner, calls } = machine(() => ({ exitCode: 1, out: { code: 999, msg: "no" } }));
    await expect(cniOf(runner).add(REQUEST)).rejects.toMatchObject({
      code: "CNI_PLUGIN_FAILED",
      details: { plugin: "first", command: "ADD", message: "no", cniCode: 999 },
    });
    expect(calls).toHaveLength(1);
  });

  test.each([
    {
      name: "a configuration that is refused",
      answer: { exitCode: 1, out: { code: 7, msg: "bad", details: "more" } },
      want: { code: "CNI_CONFIG_INVALID", details: { reason: "plugin first: bad; more" } },
    },
    {
      name: "a crash without an answer",
      answer: { exitCode: 139, out: "" },
      want: { code: "CNI_PLUGIN_FAILED", details: { message: "exit code 139", cniCode: 0 } },
    },
    {
      name: "a success that says nothing",
      answer: { out: "" },
      want: { code: "CNI_PLUGIN_FAILED", details: { message: "the answer is no CNI result" } },
    },
    {
      name: "a plugin that hangs",
      answer: new AppError("OS_TIMED_OUT", { program: "first", timeoutMs: 60_000 }),
      want: { code: "CNI_TIMED_OUT", details: { plugin: "first", command: "ADD" } },
    },
  ])("names what went wrong: $name", async ({ answer, want }) => {
    const { runner } = machine(() => answer);
    await expect(cniOf(runner).add(REQUEST)).rejects.toMatchObject(want);
  });

  test("finds out that a plugin is missing before the first one runs", async () => {
    const { runner, calls } = machine(() => ({ out: RESULT }));
    const cni = createCni({
      runner: {
        run: (command) =>
          command.argv[0].endsWith("second")
            ? Promise.reject(new AppError("OS_PROGRAM_MISSING", { program: "second" }))
            : runner.run(command),
        endFamily: () => Promise.resolve(),
      },
      binDirs: ["/b"],
      family: "test",
    });
    await expect(cni.add(REQUEST)).rejects.toMatchObject({
      code: "CNI_PLUGIN_MISSING",
      details: { plugin: "second", path: "/b" },
    });
    expect(calls).toHaveLength(0);
  });

  test.each([
    {
      name: "that does not know VERSION",
      version: { exitCode: 1, out: { code: 4, msg: "unknown CNI_COMMAND: VERSION" } },
      want: "1.1.0",
    },
    {
      name: "whose answer to VERSION has no cniVersion",
      version: { out: { supportedVersions: ["0.4.0"] } },
      want: "1.1.0",
    },
    { name: "whose answer is none", version: { out: "hello" }, want: "1.1.0" },
    { name: "of 0.2.0, without a list", version: { out: { cniVersion: "0.2.0" } }, want: "0.2.0" },
  ])("speaks $want with a plugin $name", async ({ version, want }) => {
    const { runner, calls } = machine(() => ({ out: RESULT }), version);
    await cniOf(runner).add(REQUEST);
    expect(calls.map((call) => call.config["cniVersion"])).toEqual([want, want]);
  });

  test("gives no previous result to plugins that are older than that", async () => {
    const { runner, calls } = machine(() => ({ out: { ip4: { ip: "10.0.0.2/24" } } }));
    const config = { ...REQUEST.config, cniVersion: "0.2.0" };
    const result = await cniOf(runner).add({ ...REQUEST, config });
    expect(result.ips).toEqual([{ address: "10.0.0.2/24" }]);
    expect(calls[1]?.config).not.toHaveProperty("prevResult");
  });
});

describe("DEL", () => {
  test("runs backwards, each plugin with the result of ADD, without a namespace when it is gone", async () => {
    const { runner, calls } = machine(() => ({ out: "" }));
    const { containerId, interfaceName, config, args, capabilityArgs } = REQUEST;
    const gone = { containerId, interfaceName, config, args, capabilityArgs };
    await cniOf(runner).del(gone, RESULT);
    expect(calls.map((call) => call.path)).toEqual(["/b/second", "/b/first"]);
    expect(calls.map((call) => call.config["prevResult"])).toEqual([RESULT, RESULT]);
    expect(calls[0]?.env).toMatchObject({ CNI_COMMAND: "DEL", CNI_NETNS: "" });
  });

  test("goes on after a plugin that fails and then tells it", async () => {
    const { runner, calls } = machine(({ path }) =>
      path === "/b/second" ? { exitCode: 1, out: { code: 11, msg: "later" } } : { out: "" },
    );
    await expect(cniOf(runner).del(REQUEST, RESULT)).rejects.toMatchObject({
      code: "CNI_PLUGIN_FAILED",
      details: { plugin: "second", command: "DEL", cniCode: 11 },
    });
    expect(calls).toHaveLength(2);
  });

  test("succeeds when the plugin does not know the container", async () => {
    const { runner } = machine(() => ({ exitCode: 1, out: { code: 3, msg: "unknown" } }));
    await expect(cniOf(runner).del(REQUEST)).resolves.toBeUndefined();
  });
});
