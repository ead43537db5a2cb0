// SPDX-License-Identifier: Apache-2.0
import type { Pod } from "@patchbay/api/kubernetes";
import { AppError } from "@patchbay/base";
import { expect, test, afterAll, describe } from "vitest";
import { aContainer, aPod, IMAGE, NODE, UID } from "../testing/pods.ts";
import { PodWorld } from "../testing/world.ts";
import { toSandboxConfig } from "../translate/sandbox.ts";
import { serializeInputs, observe, parseLogTail, withLogTails } from "./observe.ts";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ContainerFacts, LivePodFacts } from "./facts.ts";

async function aWorld(pod: Pod = aPod()): Promise<PodWorld> {
  const world = new PodWorld();
  await world.put(pod);
  return world;
}

function run(world: PodWorld, attempt: number, pod = aPod()): Promise<string> {
  return world.runtime.runSandbox(toSandboxConfig(pod, attempt, NODE));
}

test("sorts sandboxes by attempt, newest first, and only running ones have addresses", async () => {
  const world = await aWorld();
  for (const attempt of [1, 3, 2]) await run(world, attempt);
  const [, , second] = (await observe(UID, world.deps)).sandboxes;
  world.runtime.killSandbox(second?.id ?? "");
  const { sandboxes } = await observe(UID, world.deps);
  expect(sandboxes.map(({ metadata }) => metadata.attempt)).toEqual([3, 2, 1]);
  expect(sandboxes.map(({ ips }) => ips.length)).toEqual([1, 1, 0]);
});

test("ignores sandboxes and containers of other pods", async () => {
  const world = await aWorld();
  await world.run();
  await run(world, 0, aPod({}, { uid: "other", name: "b" }));
  const facts = await observe(UID, world.deps);
  expect([facts.sandboxes.length, facts.containers.length]).toEqual([1, 1]);
  expect(facts.containers[0]?.sandboxId).toBe(facts.sandboxes[0]?.id);
});

test("ignores what the runtime removes meanwhile", async () => {
  const world = await aWorld();
  await world.run();
  world.runtime.findContainer = () => Promise.resolve(undefined);
  world.runtime.findSandbox = () => Promise.resolve(undefined);
  const facts = await observe(UID, world.deps);
  expect(facts.containers).toEqual([]);
  expect(facts.sandboxes).toMatchObject([{ state: "READY", ips: [] }]);
});

test("records the owner of container and sandbox ids", async () => {
  const world = await aWorld();
  await world.run();
  const { sandboxes, containers } = await observe(UID, world.deps);
  world.runtime.stop();
  const ids = [...sandboxes, ...containers].map(({ id }) => id);
  expect(await Promise.all(ids.map((id) => world.deps.owners.find(id)))).toEqual([UID, UID]);
});

test.each([{ has: true }, { has: false }])("finds leftovers of a pod: $has", async ({ has }) => {
  const world = new PodWorld();
  if (has) await world.files.ensureDirectory(`/p/${UID}`);
  const facts = await observe(UID, world.deps);
  expect(facts).toMatchObject({ pod: undefined, hasLeftovers: has, rejection: undefined });
  expect([facts.images.size, facts.pausedSteps.size]).toEqual([0, 0]);
});

test("a paused step is reported until the pod's spec changes", async () => {
  const world = await aWorld();
  const { deps } = world;
  const summary = { reason: "r", message: "m" };
  const inputs = serializeInputs(aPod());
  for (const name of ["volumes", "sandbox", "container compute", "container gone"]) {
    deps.stepBackoff.fail({ scope: UID, name, inputs }, { code: "CRI_FAILED", summary });
  }
  expect([...(await observe(UID, deps)).pausedSteps.keys()]).toEqual([
    "volumes",
    "sandbox",
    "container compute",
  ]);
  await world.put(aPod({ containers: [aContainer({ tty: true })] }));
  expect((await observe(UID, deps)).pausedSteps.size).toBe(0);
});

test.each<{ name: string; pod: Pod; want: boolean }>([
  { name: "requests a forbidden field", pod: aPod({ hostPID: true }), want: true },
  {
    name: "requests a forbidden field and has failed",
    pod: { ...aPod({ hostPID: true }), status: { phase: "Failed" } },
    want: false,
  },
  {
    name: "requests a forbidden field and is being deleted",
    pod: aPod({ hostPID: true }, { deletionTimestamp: "2026-11-28T10:00:00Z" }),
    want: false,
  },
  {
    name: "requests more than the node has",
    pod: aPod({ containers: [aContainer({ resources: { requests: { memory: "200Gi" } } })] }),
    want: true,
  },
  { name: "requests no special fields", pod: aPod(), want: false },
])("rejects a pod that $name: $want", async ({ pod, want }) => {
  const world = await aWorld(pod);
  expect((await observe(UID, world.deps)).rejection !== undefined).toBe(want);
});

test("admits a pod with a sandbox regardless of resources", async () => {
  const resources = { requests: { memory: "200Gi" } };
  const world = await aWorld(aPod({ containers: [aContainer({ resources })] }));
  await run(world, 0);
  expect((await observe(UID, world.deps)).rejection).toBeUndefined();
});

const IMAGES = [{ name: "k", image: { reference: IMAGE.tags[0] ?? "" } }];

test.each<{ name: string; pod: Pod; want: number }>([
  { name: "not started", pod: aPod(), want: 1 },
  { name: "being deleted", pod: aPod({}, { deletionTimestamp: "2026-11-28T10:00:00Z" }), want: 0 },
  { name: "finished", pod: { ...aPod(), status: { phase: "Succeeded" } }, want: 0 },
])("looks up images if a pod is $name", async ({ pod, want }) => {
  const world = await aWorld(pod);
  expect((await observe(UID, world.deps)).images.size).toBe(want);
});

test("does not look up images that a running pod has mounted", async () => {
  const other = aContainer({ name: "other", image: "other", imagePullPolicy: "Never" });
  const world = await aWorld(aPod({ volumes: IMAGES, containers: [aContainer(), other] }));
  expect([...(await observe(UID, world.deps)).images.keys()]).toEqual([
    "localhost/launcher:dev",
    "other",
  ]);
  await world.run();
  expect([...(await observe(UID, world.deps)).images.keys()]).toEqual(["other"]);
});

test("throws if the runtime is unavailable", async () => {
  const world = await aWorld();
  world.runtime.stop();
  await expect(observe(UID, world.deps)).rejects.toBeInstanceOf(AppError);
});

const TIME = "2026-11-22T09:00:00.000000000Z";

function logOf(...lines: readonly string[]): Buffer {
  return Buffer.from(lines.map((line) => `${TIME} ${line}\n`).join(""));
}

describe("the tail of a log", () => {
  test("contains lines of both streams, and joins the parts of long lines", () => {
    const log = logOf("stderr F first", "stdout P sec", "stdout F ond ü", "stderr F ");
    expect(parseLogTail(log)).toBe("first\nsecond ü");
  });

  test("omits a line without its beginning", () => {
    const log = logOf("stderr F first words", "stderr F second");
    expect(parseLogTail(log.subarray(log.indexOf("words")))).toBe("second");
  });

  test("is limited to 80 lines and 2048 bytes", () => {
    const many = Array.from({ length: 100 }, (_, index) => `stderr F ${String(index)}`);
    const lines = parseLogTail(logOf(...many)).split("\n");
    expect([lines.length, lines[0]]).toEqual([80, "20"]);
    expect(parseLogTail(logOf(`stderr F ${"x".repeat(3000)}`))).toHaveLength(2048);
  });

  test("is empty for an empty log", () => {
    expect(parseLogTail(Buffer.alloc(0))).toBe("");
  });
});

describe("a container that has ended", () => {
  const directory = mkdtempSync(join(tmpdir(), "last-words-"));
  const logPath = join(directory, "0.log");
  afterAll(() => {
    rmSync(directory, { recursive: true });
  });
  const withMessages = async (
    policy: "File" | "FallbackToLogsOnError",
    change: Partial<ContainerFacts>,
  ): Promise<string | undefined> => {
    const ended = { name: "c", state: "EXITED", exitCode: 1, message: "", logPath, ...change };
    const containers = [{ name: "c", image: "i", terminationMessagePolicy: policy }];
    const facts = {
      pod: { apiVersion: "v1", kind: "Pod", metadata: { name: "p" }, spec: { containers } },
      containers: [ended],
    };
    writeFileSync(logPath, logOf("stderr F no such file"));
    // What is not looked at is left out.
    const [one] = await withLogTails(facts as unknown as LivePodFacts);
    return one?.message;
  };

  test.each([
    { name: "reports its log tail after an error", change: {}, want: "no such file" },
    { name: "reports no log tail after success", change: { exitCode: 0 }, want: "" },
    { name: "retains a message of the runtime", change: { message: "m" }, want: "m" },
    { name: "reports no log tail while it runs", change: { state: "RUNNING" as const }, want: "" },
    { name: "reports no log tail without a log", change: { logPath: "/nowhere/0.log" }, want: "" },
  ])("$name", async ({ change, want }) => {
    expect(await withMessages("FallbackToLogsOnError", change)).toBe(want);
  });

  test("has no message without FallbackToLogsOnError", async () => {
    expect(await withMessages("File", {})).toBe("");
  });
});
