// SPDX-License-Identifier: Apache-2.0
import { AppError } from "@patchbay/base";
import type {
  AttachmentRequest,
  Command,
  CommandResult,
  ProcessRunner,
} from "@patchbay/core/interfaces";
import { describe, expect, test } from "vitest";
import { createCni, SharedLocks } from "./plugins.ts";

interface Work {
  readonly done: Promise<void>;
  end(): Promise<void>;
}

let log: string[] = [];

function begin(
  { locks, lockName = "blue" }: { readonly locks: SharedLocks; readonly lockName?: string },
  how: "runShared" | "runExclusive",
  name: string,
): Work {
  const { promise, resolve } = Promise.withResolvers<undefined>();
  const done = locks[how](lockName, async () => {
    log.push(`${name} begins`);
    await promise;
    log.push(`${name} ends`);
  });
  return {
    done,
    end: async () => {
      resolve(undefined);
      await done;
    },
  };
}

async function settled(): Promise<void> {
  for (let round = 0; round < 20; round += 1) await Promise.resolve();
}

test("an exclusive operation waits for running operations and delays later ones", async () => {
  log = [];
  const locks = new SharedLocks();
  const first = begin({ locks }, "runShared", "first");
  const second = begin({ locks }, "runShared", "second");
  const alone = begin({ locks }, "runExclusive", "alone");
  const late = begin({ locks }, "runShared", "late");
  const other = begin({ locks, lockName: "green" }, "runShared", "other");
  await settled();
  expect(log).toEqual(["first begins", "second begins", "other begins"]);
  await first.end();
  await second.end();
  await settled();
  expect(log.at(-1)).toBe("alone begins");
  await alone.end();
  await late.end();
  await other.end();
  expect(log.slice(5)).toEqual([
    "alone begins",
    "alone ends",
    "late begins",
    "late ends",
    "other ends",
  ]);
});

test("exclusive operations run one after the other", async () => {
  log = [];
  const locks = new SharedLocks();
  const works = ["a", "b"].map((name) => begin({ locks }, "runExclusive", name));
  for (const work of works) await work.end();
  expect(log).toEqual(["a begins", "a ends", "b begins", "b ends"]);
});

test("a failed operation releases its lock", async () => {
  log = [];
  const locks = new SharedLocks();
  for (const how of ["runExclusive", "runShared"] as const) {
    const failing = locks[how]("blue", () => Promise.reject(new Error("no")));
    await expect(failing).rejects.toThrow("no");
  }
  await begin({ locks }, "runExclusive", "next").end();
  expect(log).toEqual(["next begins", "next ends"]);
});

interface Call {
  readonly path: string;
  readonly env: Readonly<Record<string, string>>;
  readonly config: Readonly<Record<string, unknown>>;
  readonly timeoutMs: number;
}

interface Output {
  readonly exitCode?: number;
  readonly out: unknown;
  readonly err?: string;
}

type Answer = (call: Call) => Output | AppError;

const VERSION = {
  out: {
    cniVersion: "1.0.0",
    supportedVersions: ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0"],
  },
};

function toResult({ exitCode = 0, out, err = "" }: Output): CommandResult {
  return { exitCode, stdout: typeof out === "string" ? out : JSON.stringify(out), stderr: err };
}

interface Machine {
  readonly runner: ProcessRunner;
  /** But for VERSION. */
  readonly calls: readonly Call[];
  /** Those of VERSION. */
  readonly versionQueries: readonly Call[];
}

/** A machine whose plugins in `/b` answer; `/a` has none. */
function machine(answer: Answer, version: Output | AppError = VERSION): Machine {
  const calls: Call[] = [];
  const versionQueries: Call[] = [];
  const run = ({ argv, env = {}, stdin = "", timeoutMs }: Command): Promise<CommandResult> => {
    const [path] = argv;
    if (!path.startsWith("/b/")) {
      return Promise.reject(new AppError("OS_PROGRAM_MISSING", { program: path }));
    }
    const isVersion = env["CNI_COMMAND"] === "VERSION";
    // The test's own configurations are objects.
    const config = JSON.parse(stdin) as Call["config"];
    const call = { path, env, config, timeoutMs };
    (isVersion ? versionQueries : calls).push(call);
    const output = isVersion ? version : answer(call);
    return output instanceof AppError ? Promise.reject(output) : Promise.resolve(toResult(output));
  };
  return { runner: { run, killProcessFamily: () => Promise.resolve() }, calls, versionQueries };
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

const buildCni = (runner: ProcessRunner): ReturnType<typeof createCni> =>
  createCni({ runner, binDirs: ["/a", "/b"], family: "test" });

describe("ADD", () => {
  test("runs the plugins in order, each with the previous plugin's result", async () => {
    const { runner, calls } = machine(({ path }) => ({ out: { ...RESULT, dns: { path } } }));
    const result = await buildCni(runner).add(REQUEST);
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
    expect(calls[0]?.env).toEqual({
      PATH: expect.stringContaining("/sbin") as string,
      CNI_COMMAND: "ADD",
      CNI_CONTAINERID: "box1",
      CNI_NETNS: "/run/netns/box1",
      CNI_IFNAME: "net1",
      CNI_ARGS: "IgnoreUnknown=1;K8S_POD_NAME=p",
      CNI_PATH: "/a:/b",
    });
    expect(calls.map((call) => call.timeoutMs)).toEqual([60_000, 60_000]);
  });

  test("hanging plugins of a namespace do not block other namespaces", async () => {
    const running: string[] = [];
    const { runner } = machine(() => ({ out: RESULT }));
    const run: ProcessRunner["run"] = (command) => {
      const { CNI_COMMAND: verb, CNI_ARGS: args = "" } = command.env ?? {};
      if (verb !== "ADD") return runner.run(command);
      running.push(args);
      return new Promise(() => undefined);
    };
    const cni = createCni({ runner: { ...runner, run }, binDirs: ["/b"], family: "test" });
    const hostile = new Array<string>(6).fill("hostile");
    const namespaces = [...hostile, "other", "third", "fourth", "fifth"];
    for (const [index, namespace] of namespaces.entries()) {
      const args = [["K8S_POD_NAMESPACE", namespace]] as const;
      void cni.add({ ...REQUEST, containerId: `box${String(index)}`, args });
    }
    await new Promise((resolve) => setImmediate(resolve));
    expect(running.map((args) => args.split("=")[1])).toEqual([
      "hostile",
      "hostile",
      "hostile",
      "hostile",
      "other",
      "third",
      "fourth",
    ]);
    await cni.del({ ...REQUEST, containerId: "of-no-pod" }, RESULT);
  });

  test("queries the versions of each plugin once, even for concurrent calls", async () => {
    const { runner, versionQueries: asked } = machine(() => ({ out: RESULT }));
    const cni = buildCni(runner);
    await Promise.all([cni.add(REQUEST), cni.add(REQUEST)]);
    await cni.add(REQUEST);
    expect(asked.map((call) => call.path)).toEqual(["/b/first", "/b/second"]);
    expect(asked[0]).toMatchObject({ config: { cniVersion: "1.0.0" }, timeoutMs: 5_000 });
  });

  test("repeats a query that failed", async () => {
    const { runner, versionQueries: asked } = machine(() => ({ out: RESULT }), { out: "" });
    const cni = buildCni(runner);
    await cni.add(REQUEST);
    await cni.add(REQUEST);
    expect(asked).toHaveLength(4);
  });

  test("runs each plugin with the configured deadline", async () => {
    const { runner, calls } = machine(() => ({ out: RESULT }));
    const cni = createCni({ runner, binDirs: ["/b"], family: "test", addTimeoutMs: 500 });
    await cni.add(REQUEST);
    expect(calls.map((call) => call.timeoutMs)).toEqual([500, 500]);
  });

  test("returns an empty result without plugins", async () => {
    const { runner } = machine(() => ({ out: RESULT }));
    const config = { ...REQUEST.config, plugins: [] };
    expect(await buildCni(runner).add({ ...REQUEST, config })).toEqual({ cniVersion: "1.1.0" });
  });

  test("stops at the first plugin that fails", async () => {
    const { runner, calls } = machine(() => ({ exitCode: 1, out: { code: 999, msg: "no" } }));
    await expect(buildCni(runner).add(REQUEST)).rejects.toMatchObject({
      code: "CNI_PLUGIN_FAILED",
      details: { plugin: "first", command: "ADD", message: "no", cniCode: 999 },
    });
    expect(calls).toHaveLength(1);
  });

  test.each([
    {
      name: "a rejected configuration",
      answer: { exitCode: 1, out: { code: 7, msg: "bad", details: "more" } },
      want: {
        code: "CNI_CONFIG_INVALID",
        details: { network: "blue", reason: "plugin first: bad; more", cniCode: 7 },
      },
    },
    {
      name: "a rejected configuration without details",
      answer: { exitCode: 1, out: { code: 7, msg: "bad", details: "" } },
      want: { code: "CNI_CONFIG_INVALID", details: { reason: "plugin first: bad" } },
    },
    {
      name: "an error object that is not CNI's",
      answer: { exitCode: 1, out: { error: "no" } },
      want: { code: "CNI_PLUGIN_FAILED", details: { message: 'exit code 1: {"error":"no"}' } },
    },
    {
      name: "an error message on standard error",
      answer: { exitCode: 2, out: "usage", err: " panic\n" },
      want: { code: "CNI_PLUGIN_FAILED", details: { message: "exit code 2: panic" } },
    },
    {
      name: "an error message on standard output",
      answer: { exitCode: 2, out: "usage\n", err: " \n" },
      want: { code: "CNI_PLUGIN_FAILED", details: { message: "exit code 2: usage" } },
    },
    {
      name: "a crash without output",
      answer: { exitCode: 139, out: "" },
      want: { code: "CNI_PLUGIN_FAILED", details: { message: "exit code 139", cniCode: 0 } },
    },
    {
      name: "a success without output",
      answer: { out: "" },
      want: { code: "CNI_PLUGIN_FAILED", details: { message: "the answer is not a CNI result" } },
    },
    {
      name: "a plugin that hangs",
      answer: new AppError("OS_TIMED_OUT", { program: "first", timeoutMs: 60_000 }),
      want: {
        code: "CNI_TIMED_OUT",
        details: { plugin: "first", command: "ADD", timeoutMs: 60_000 },
        cause: { code: "OS_TIMED_OUT" },
      },
    },
    {
      name: "a plugin killed because of too much output",
      answer: new AppError("OS_PROGRAM_FAILED", {
        program: "first",
        exitCode: 143,
        stderr: "it wrote more than 1 bytes of output",
      }),
      want: {
        code: "CNI_PLUGIN_FAILED",
        details: { plugin: "first", message: "it wrote more than 1 bytes of output" },
      },
    },
    {
      name: "an error message that is too long and has control characters",
      answer: { exitCode: 1, out: "", err: `out of\u0007 luck\n\u0000${"x".repeat(5000)}` },
      want: {
        details: {
          message: expect.stringMatching(/^exit code 1: out of luck x{980,990}…$/) as string,
        },
      },
    },
  ])("reports the plugin's failure: $name", async ({ answer, want }) => {
    const { runner } = machine(() => answer);
    await expect(buildCni(runner).add(REQUEST)).rejects.toMatchObject(want);
  });

  test("detects a missing plugin before the first plugin runs", async () => {
    const { runner, calls } = machine(() => ({ out: RESULT }));
    const cni = createCni({
      runner: {
        run: (command) =>
          command.argv[0].endsWith("second")
            ? Promise.reject(new AppError("OS_PROGRAM_MISSING", { program: "second" }))
            : runner.run(command),
        killProcessFamily: () => Promise.resolve(),
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

  test("in a pod, finds and runs each plugin in the host's namespaces", async () => {
    const argvs: string[] = [];
    const runner: ProcessRunner = {
      run: ({ argv }) => {
        argvs.push(argv.join(" "));
        const isThere = argv.at(-1)?.startsWith("/b/") === true;
        const stdout = JSON.stringify(RESULT);
        return Promise.resolve({ exitCode: isThere ? 0 : 127, stdout, stderr: "nsenter: failed" });
      },
      killProcessFamily: () => Promise.resolve(),
    };
    const host = { runner, family: "test", hostProcess: 1 };
    await createCni({ ...host, binDirs: ["/a", "/b"] }).add(REQUEST);
    expect(argvs[0]).toBe("nsenter --target 1 --mount --net -- /a/first");
    expect(argvs[1]).toBe("nsenter --target 1 --mount --net -- /b/first");
    await expect(createCni({ ...host, binDirs: ["/a"] }).add(REQUEST)).rejects.toMatchObject({
      code: "CNI_PLUGIN_MISSING",
      details: { plugin: "first", path: "/a" },
    });
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
    { name: "whose answer to VERSION is not an object", version: { out: "hello" }, want: "1.1.0" },
    { name: "of 0.2.0, without a list", version: { out: { cniVersion: "0.2.0" } }, want: "0.2.0" },
    {
      name: "that rejects the configuration in the VERSION call",
      version: { exitCode: 1, out: { code: 7, msg: "no" } },
      want: "1.1.0",
    },
  ])("uses version $want with a plugin $name", async ({ version, want }) => {
    const { runner, calls } = machine(() => ({ out: RESULT }), version);
    await buildCni(runner).add(REQUEST);
    expect(calls.map((call) => call.config["cniVersion"])).toEqual([want, want]);
  });

  test("fails when a plugin hangs during the query of its versions", async () => {
    const hangs = new AppError("OS_TIMED_OUT", { program: "first", timeoutMs: 5_000 });
    const { runner, calls } = machine(() => ({ out: RESULT }), hangs);
    await expect(buildCni(runner).add(REQUEST)).rejects.toMatchObject({
      code: "CNI_TIMED_OUT",
      details: { command: "VERSION" },
    });
    expect(calls).toEqual([]);
  });

  test("passes no previous result to plugins that are too old for one", async () => {
    const { runner, calls } = machine(() => ({ out: { ip4: { ip: "10.0.0.2/24" } } }));
    const config = { ...REQUEST.config, cniVersion: "0.2.0" };
    const result = await buildCni(runner).add({ ...REQUEST, config });
    expect(result.ips).toEqual([{ address: "10.0.0.2/24" }]);
    expect(calls[1]?.config).not.toHaveProperty("prevResult");
  });
});

describe("DEL", () => {
  test("runs the plugins in reverse order with the result of ADD, without a deleted namespace", async () => {
    const { runner, calls } = machine(() => ({ out: "" }));
    const { containerId, interfaceName, config, args, capabilityArgs } = REQUEST;
    const previous = { containerId, interfaceName, config, args, capabilityArgs };
    await buildCni(runner).del(previous, RESULT);
    expect(calls.map((call) => call.path)).toEqual(["/b/second", "/b/first"]);
    const common = { name: "blue", cniVersion: "1.0.0", prevResult: RESULT };
    const runtimeConfig = { mac: "02:00:00:00:00:01" };
    expect(calls.map((call) => call.config)).toEqual([
      { ...common, type: "second", keep: true },
      { ...common, type: "first", capabilities: { mac: true }, runtimeConfig },
    ]);
    expect(calls[0]?.env).toMatchObject({ CNI_COMMAND: "DEL", CNI_NETNS: "" });
    expect(calls[0]?.timeoutMs).toBe(30_000);
  });

  test.each([
    { name: "of ADD", result: { cniVersion: "0.4.0" }, want: ["0.4.0", "0.4.0"] },
    { name: "that the plugins support if ADD's version is unknown", want: ["1.0.0", "1.0.0"] },
  ])("uses the version $name", async ({ result, want }) => {
    const { runner, calls } = machine(() => ({ out: "" }));
    await buildCni(runner).del(REQUEST, result);
    expect(calls.map((call) => call.config["cniVersion"])).toEqual(want);
    expect(calls.map((call) => call.config["prevResult"])).toEqual([result, result]);
  });

  test("passes no result to plugins that are too old for one", async () => {
    const { runner, calls } = machine(() => ({ out: "" }));
    await buildCni(runner).del(REQUEST, { cniVersion: "0.3.1" });
    expect(calls[0]?.config).not.toHaveProperty("prevResult");
  });

  test("continues after a failed plugin and reports the failure", async () => {
    const { runner, calls } = machine(({ path }) =>
      path === "/b/second" ? { exitCode: 1, out: { code: 11, msg: "later" } } : { out: "" },
    );
    await expect(buildCni(runner).del(REQUEST, RESULT)).rejects.toMatchObject({
      code: "CNI_PLUGIN_FAILED",
      details: { plugin: "second", command: "DEL", cniCode: 11 },
    });
    expect(calls).toHaveLength(2);
  });

  test("succeeds when the plugin does not know the container", async () => {
    const { runner } = machine(() => ({ exitCode: 1, out: { code: 3, msg: "unknown" } }));
    await expect(buildCni(runner).del(REQUEST)).resolves.toBeUndefined();
  });
});

describe("release of addresses", () => {
  const plugins = [
    { type: "first", ipam: { type: "host-local", subnet: "10.0.0.0/24" } },
    { type: "second" },
    { type: "third", ipam: { type: "../evil" } },
    { type: "fourth", ipam: { type: "dhcp" } },
  ];
  const request = { ...REQUEST, config: { ...REQUEST.config, plugins } };

  test("runs DEL of the IPAM plugins only, with the configuration of the plugins that use them", async () => {
    const { runner, calls } = machine(() => ({ out: "" }));
    await buildCni(runner).releaseAddresses(request);
    expect(calls.map((call) => call.path)).toEqual(["/b/dhcp", "/b/host-local"]);
    const common = { name: "blue", cniVersion: "1.0.0" };
    expect(calls[1]?.config).toEqual({ ...common, ...plugins[0] });
    expect(calls[1]?.env).toMatchObject({ CNI_COMMAND: "DEL", CNI_IFNAME: "net1" });
    expect(calls[1]?.timeoutMs).toBe(30_000);
  });

  test("stops at an IPAM plugin that fails", async () => {
    const { runner, calls } = machine(() => ({ exitCode: 1, out: { code: 11, msg: "later" } }));
    await expect(buildCni(runner).releaseAddresses(request)).rejects.toMatchObject({
      details: { plugin: "dhcp", command: "DEL" },
    });
    expect(calls).toHaveLength(1);
  });
});
