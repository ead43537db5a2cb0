// SPDX-License-Identifier: Apache-2.0
// Supervision of one component, with real processes.
import { randomUUID } from "node:crypto";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  createClock,
  createFiles,
  isRunning,
  readBootId,
  signalProcess,
  startDetached,
  waitForLine,
  type ProcessName,
} from "@patchbay/os";
import { createFakeClock } from "@patchbay/os/testing";
import { createSilentLogger } from "@patchbay/telemetry";
import { afterEach, beforeEach, expect, test } from "vitest";
import { Component, type ComponentDeps, parseLogReason } from "./component.ts";
import { checkHealth } from "./liveness.ts";
import { readNumber, readFields, readText } from "../data-dir/json.ts";
import { listDirectories, buildPaths } from "../data-dir/paths.ts";

const DEADLINE_MS = 5000;
const WITHIN = { timeout: DEADLINE_MS };
const files = createFiles();
let deps: ComponentDeps;
let components: Component[];

beforeEach(async () => {
  components = [];
  const paths = buildPaths(join(tmpdir(), `component-${randomUUID()}`));
  for (const [path, mode] of listDirectories(paths)) await files.ensureDirectory(path, mode);
  const log = createSilentLogger();
  deps = { files, clock: createClock(), log, paths, bootId: await readBootId(files) };
});

afterEach(async () => {
  for (const component of components) await component.stop();
  await files.remove(deps.paths.dataDir);
});

function component(script: string): Component {
  const made = new Component({ name: "it", argv: ["/bin/sh", "-c", script] }, deps);
  components.push(made);
  return made;
}

/** Writes each of its lives to a file of its own. */
function living(): string {
  return `echo $$ >>${deps.paths.dataDir}/lives; echo ready; exec sleep 60`;
}

async function processOf(): Promise<ProcessName> {
  const fields = await readFields(files, join(deps.paths.run, "it.json"));
  return { pid: readNumber(fields, "pid") ?? 0, startTime: readText(fields, "startTime") };
}

test("starts a component, and ends it on request", async () => {
  const one = component(living());
  await one.start();
  const name = await processOf();
  expect(one.isAdopted).toBe(false);
  expect(await isRunning(name)).toBe(true);
  await one.stop();
  expect(await isRunning(name)).toBe(false);
  expect(await files.exists(join(deps.paths.run, "it.json"))).toBe(false);
});

test("restarts a component that was killed", async () => {
  await component(living()).start();
  const first = await processOf();
  const again = new AbortController();
  const { promise, resolve } = Promise.withResolvers<undefined>();
  files.watchDirectory(
    deps.paths.run,
    () => {
      void processOf().then(({ pid }) => {
        if (pid !== 0 && pid !== first.pid) resolve(undefined);
      });
    },
    again.signal,
  );
  await signalProcess(first, "SIGKILL");
  await promise;
  again.abort();
  expect(await isRunning(await processOf())).toBe(true);
});

test("kills and restarts a component that hangs", async () => {
  const clock = createFakeClock();
  const healthSocket = join(deps.paths.run, "it.sock");
  const serve = `require("node:http").createServer((_, r) => r.end()).listen(process.argv[1], () => console.log("ready"))`;
  const argv = [process.execPath, "-e", serve, healthSocket] as const;
  const made = new Component({ name: "it", argv, healthSocket }, { ...deps, clock });
  components.push(made);
  await made.start();
  const first = await processOf();
  process.kill(first.pid, "SIGSTOP");
  const nextPeriod = async (): Promise<number> => {
    await clock.advance(10_000);
    return (await processOf()).pid;
  };
  try {
    await expect.poll(nextPeriod, WITHIN).not.toBe(first.pid);
    expect(await isRunning(first)).toBe(false);
  } finally {
    await signalProcess(first, "SIGKILL"); // it would not end by itself
  }
  const lives = (): Promise<string> =>
    checkHealth(healthSocket, AbortSignal.timeout(DEADLINE_MS)).then(() => "lives", String);
  await expect.poll(lives, WITHIN).toBe("lives");
});

test("adopts a component that already runs", async () => {
  await component(living()).start();
  const name = await processOf();
  const other = component(living());
  await other.start();
  expect(other.isAdopted).toBe(true);
  expect(await processOf()).toEqual(name);
});

const SLEEPING = "echo ready; exec sleep 60";

test.each([
  { name: "with different arguments", script: "echo ready; exec sleep 61", build: "" },
  { name: "of another build", script: SLEEPING, build: "earlier" },
])("restarts a component $name", async ({ script, build }) => {
  const argv = ["/bin/sh", "-c", script] as const;
  // As an earlier supervisor left it: nobody keeps this one.
  const left = await startDetached({
    argv,
    env: {},
    outFile: join(deps.paths.run, "it.out"),
    logFile: join(deps.paths.logs, "it.log"),
  });
  const state = { ...left, ended: undefined, bootId: deps.bootId, build, argv };
  await files.writeAtomic(join(deps.paths.run, "it.json"), JSON.stringify(state));
  const now = component(SLEEPING);
  await now.start();
  expect(now.isAdopted).toBe(false);
  expect(await left.ended).toBe("SIGTERM");
});

test("reports the last output of a component that ends before it is ready", async () => {
  const broken = component(`echo '{"message":"failed","reason":"no port"}' >&2; exit 1`);
  await expect(broken.start()).rejects.toMatchObject({
    code: "RUNTIME_START_FAILED",
    message: "it did not become ready: exit code 1: no port",
  });
});

test("uses a readiness check if there is one, and prepares before each start", async () => {
  const marker = join(deps.paths.run, "prepared");
  const ready = Promise.withResolvers<undefined>();
  const made = new Component(
    {
      name: "it",
      argv: ["/bin/sh", "-c", `test -e ${marker} && rm ${marker} && exec sleep 60`],
      beforeStart: () => files.writeAtomic(marker, ""),
      untilReady: () => ready.promise,
    },
    deps,
  );
  components.push(made);
  let isStarted = false;
  const started = made.start().then(() => {
    isStarted = true;
  });
  await expect.poll(() => files.exists(marker)).toBe(false);
  await expect.poll(async () => isRunning(await processOf())).toBe(true);
  expect(isStarted).toBe(false);
  ready.resolve(undefined);
  await started;
});

test("reports the last failure of a readiness check", async () => {
  const log = join(deps.paths.logs, "it.log");
  await files.writeAtomic(log, '{"level":"fatal","error":"no space","msg":"containerd"}\n');
  const made = new Component(
    {
      name: "it",
      argv: ["/bin/sleep", "60"],
      untilReady: () => Promise.reject(new Error("nobody answers")),
    },
    deps,
  );
  components.push(made);
  await expect(made.start()).rejects.toThrow("nobody answers: no space");
});

test("kills a component that ignores SIGTERM", async () => {
  const impatient: ComponentDeps = {
    ...deps,
    clock: { ...deps.clock, sleep: (_ms, signal) => deps.clock.sleep(50, signal) },
  };
  const program = {
    name: "it",
    argv: ["/bin/sh", "-c", "trap '' TERM; echo ready; sleep 60"],
  } as const;
  const made = new Component(program, impatient);
  await made.start();
  const name = await processOf();
  await waitForLine(join(deps.paths.run, "it.out"), "ready", AbortSignal.timeout(DEADLINE_MS));
  await made.stop();
  expect(await isRunning(name)).toBe(false);
});

test.each([
  { name: "no log", log: undefined, want: "" },
  { name: "an empty log", log: "\n\n", want: "" },
  { name: "plain text", log: "one\ntwo\nthree\n", want: "three" },
  { name: "text after JSON", log: '{"reason":"early"}\npanic: nil\n', want: "panic: nil" },
  { name: "a reason", log: '{"message":"failed","reason":"no memory"}\n', want: "no memory" },
  { name: "a field error", log: '{"msg":"failed","error":"no space"}', want: "no space" },
  { name: "a message", log: '{"msg":"short","message":"long"}', want: "long" },
  { name: "containerd's message", log: '{"level":"fatal","msg":"no socket"}', want: "no socket" },
  { name: "fields that are not text", log: '{"reason":7,"error":"","msg":"m"}', want: "m" },
  { name: "no known field", log: '{"level":"fatal"}', want: "" },
])("the reason in a log with $name is $want", ({ log, want }) => {
  expect(parseLogReason(log)).toBe(want);
});
