// SPDX-License-Identifier: Apache-2.0
// CNI operations are counted by result, and return it unchanged.
import { createFakeCni } from "@patchbay/cni/testing";
import { AppError, type LogFields } from "@patchbay/base";
import type { AttachmentRequest, Cni } from "@patchbay/core/interfaces";
import { metricNamesOf, samplesIn } from "@patchbay/support";
import { createMetrics, createSilentLogger } from "@patchbay/telemetry";
import { expect, test } from "vitest";
import { countOperations, createBatchStats, type BatchStats } from "./cni-metrics.ts";
import { createFakeClock } from "@patchbay/os/testing";

const NAME = "patchbay_cni_operations_total";
const FAILED = new AppError("CNI_PLUGIN_FAILED", { plugin: "bridge", command: "any" });
const REQUEST: AttachmentRequest = {
  containerId: "box",
  netnsPath: "/run/netns/box",
  interfaceName: "net1",
  config: { cniVersion: "1.1.0", name: "blue", plugins: [{ type: "bridge" }] },
  args: [],
  capabilityArgs: {},
};
const OLD = { ...REQUEST.config, cniVersion: "0.3.1" };
const RESULT = { cniVersion: "1.1.0" };

/** `add` runs before each, so that an attachment exists. */
const ROWS: readonly {
  readonly command: string;
  readonly call: (cni: Cni, config: AttachmentRequest["config"]) => Promise<unknown>;
  readonly fails: "add" | "del" | "check" | "status" | "gc" | "release";
  readonly unasked?: unknown;
}[] = [
  { command: "ADD", call: (cni) => cni.add({ ...REQUEST, interfaceName: "net2" }), fails: "add" },
  { command: "DEL", call: (cni) => cni.del(REQUEST), fails: "del" },
  {
    command: "CHECK",
    call: (cni, config) => cni.check(REQUEST, { ...RESULT, cniVersion: config.cniVersion }),
    fails: "check",
    unasked: false,
  },
  { command: "STATUS", call: (cni, config) => cni.status(config), fails: "status", unasked: false },
  {
    command: "GC",
    call: (cni, config) => cni.gc(config, () => Promise.resolve([REQUEST])),
    fails: "gc",
    unasked: false,
  },
  { command: "RELEASE", call: (cni) => cni.releaseAddresses(REQUEST), fails: "release" },
];

test.each(ROWS)("$command is counted", async ({ command, call, fails, unasked }) => {
  const [fake, metrics] = [createFakeCni(), createMetrics("net-agent")];
  await fake.add(REQUEST);
  const cni = countOperations(fake, metrics);
  const counts = async (): Promise<readonly string[]> =>
    samplesIn(await metrics.print(), NAME)
      .map((line) => line.replace(NAME, ""))
      .toSorted();
  expect(metricNamesOf("net-agent")).toContain(NAME);
  expect(await counts()).toEqual([]);
  fake.failNext(fails, FAILED);
  await expect(call(cni, REQUEST.config)).rejects.toBe(FAILED);
  await call(cni, REQUEST.config);
  const want = [
    `{command="${command}",result="done"} 1`,
    `{command="${command}",result="failed"} 1`,
  ];
  expect(await counts()).toEqual(want);
  if (unasked === undefined) return;
  expect(await call(cni, OLD)).toBe(unasked);
  expect(await counts()).toEqual([...want, `{command="${command}",result="unasked"} 1`]);
});

function requestOf(pod: string, interfaceName: string): AttachmentRequest {
  return {
    containerId: pod,
    netnsPath: `/run/netns/${pod}`,
    interfaceName,
    args: [],
    config: { cniVersion: "1.0.0", name: "red", plugins: [{ type: "bridge" }] },
    capabilityArgs: {},
  };
}

function setUp(waiting: { count: number }) {
  const told: LogFields[] = [];
  const clock = createFakeClock();
  const cni = createFakeCni();
  const log = {
    ...createSilentLogger(),
    info: (_message: string, fields?: LogFields) => told.push(fields ?? {}),
  };
  const spell = createBatchStats({ cni, clock, log }, () => waiting.count === 0);
  return { told, clock, cni, spell };
}

/** Two networks for each pod; the queue is empty during the last pass. */
async function attachAll(
  spell: BatchStats,
  pods: readonly string[],
  waiting: { count: number },
): Promise<void> {
  for (const [index, pod] of pods.entries()) {
    waiting.count = pods.length - index - 1;
    await spell.runPass(`ns/${pod}`, async () => {
      await spell.cni.add(requestOf(pod, "net1"));
      await spell.cni.add(requestOf(pod, "net2"));
    });
  }
}

const PODS = Array.from({ length: 10 }, (_, index) => `pod${String(index)}`);

test("logs once how many networks of how many pods were attached, and the duration", async () => {
  const waiting = { count: PODS.length };
  const { told, clock, spell } = setUp(waiting);
  await spell.runPass("ns/first", async () => {
    await clock.advance(9_300);
    await attachAll(spell, PODS, waiting);
  });
  expect(told).toEqual([{ pods: 11, attached: 20, detached: 0, failed: 0, durationMs: 9_300 }]);
});

test("does not log small batches, and counts each batch separately", async () => {
  const waiting = { count: 0 };
  const { told, spell } = setUp(waiting);
  await attachAll(spell, PODS.slice(0, 5), waiting);
  await attachAll(spell, PODS.slice(5), waiting);
  expect(told).toEqual([]);
});

test("counts failures and rethrows them", async () => {
  const waiting = { count: 1 };
  const { told, cni, spell } = setUp(waiting);
  cni.failNext("add", new Error("no address"));
  await expect(spell.runPass("ns/a", () => spell.cni.add(requestOf("a", "net1")))).rejects.toThrow(
    "no address",
  );
  await attachAll(spell, PODS, waiting);
  expect(told).toEqual([expect.objectContaining({ pods: 11, attached: 20, failed: 1 })]);
});
