// SPDX-License-Identifier: Apache-2.0
import type { Pod } from "@patchbay/api/kubernetes";
import { describe, expect, test } from "vitest";
import type { PodFacts } from "./facts.ts";
import { aContainer, aPod, aRun, aSandbox, podFacts } from "../testing/pods.ts";
import { buildPodStatus, type PodStatus } from "./pod-status.ts";

const NOW = "2026-11-28T10:00:00Z";
const CONTEXT = { hostIp: "192.0.2.1", now: NOW, runtime: "fake", printTime: String };

interface Given extends Partial<Omit<PodFacts, "pod">> {
  readonly spec?: Partial<Pod["spec"]>;
  readonly status?: Pod["status"];
}

function statusOf({ spec, status, ...facts }: Given = {}): PodStatus {
  const pod: Pod = { ...aPod(spec), ...(status && { status }) };
  return buildPodStatus({ ...podFacts({ ...facts, pod }), pod }, CONTEXT);
}

function buildCondition({ conditions = [] }: PodStatus, type: string) {
  return conditions.find((one) => one.type === type);
}

test("a new pod is pending from now on, without addresses", () => {
  const { conditions, containerStatuses, ...rest } = statusOf();
  expect(rest).toEqual({
    phase: "Pending",
    qosClass: "BestEffort",
    hostIP: "192.0.2.1",
    startTime: NOW,
  });
  expect([conditions?.length, containerStatuses?.length]).toEqual([4, 1]);
});

test("retains its start time", () => {
  const startTime = "2026-11-28T09:00:00Z";
  expect(statusOf({ status: { startTime } }).startTime).toBe(startTime);
});

describe("its addresses are", () => {
  const status = { podIP: "10.0.0.9", podIPs: [{ ip: "10.0.0.9" }] };
  test.each<{ name: string; given: Given; want: readonly string[] | undefined }>([
    {
      name: "the addresses of its sandbox",
      given: { status, sandboxes: [aSandbox({ ips: ["10.0.0.2", "fd00::2"] })] },
      want: ["10.0.0.2", "fd00::2"],
    },
    {
      name: "the reported addresses while its sandbox has no address",
      given: { status, sandboxes: [aSandbox({ ips: [] })] },
      want: ["10.0.0.9"],
    },
    { name: "the reported addresses without a sandbox", given: { status }, want: ["10.0.0.9"] },
    {
      name: "the node's, in its network",
      given: { spec: { hostNetwork: true }, sandboxes: [aSandbox()] },
      want: ["192.0.2.1"],
    },
    {
      name: "unset in the host network before the sandbox exists",
      given: { spec: { hostNetwork: true } },
      want: undefined,
    },
    { name: "none", given: {}, want: undefined },
  ])("$name", ({ given, want }) => {
    const { podIP, podIPs } = statusOf(given);
    expect([podIP, podIPs]).toEqual([want?.[0], want?.map((ip) => ({ ip }))]);
  });
});

test("has separate statuses for init containers, if any", () => {
  expect(statusOf()).not.toHaveProperty("initContainerStatuses");
  const initContainers = [aContainer({ name: "init" })];
  const status = statusOf({ spec: { initContainers } });
  expect(status.initContainerStatuses?.map(({ name }) => name)).toEqual(["init"]);
  expect(status.containerStatuses?.map(({ name }) => name)).toEqual(["compute"]);
  expect(buildCondition(status, "Initialized")).toMatchObject({ status: "False" });
});

test("reports why a pod does not start", () => {
  const rejection = { reason: "OutOfcpu", message: "no processor is left" };
  expect(statusOf({ rejection })).toMatchObject({ phase: "Failed", ...rejection });
  const begun = statusOf({ rejection, sandboxes: [aSandbox()] });
  expect(begun).not.toHaveProperty("reason");
});

test.each([
  { exitCode: 0, want: ["Succeeded", "PodCompleted"] },
  { exitCode: 1, want: ["Failed", "PodFailed"] },
])("a pod whose container ended with $exitCode is finished", ({ exitCode, want }) => {
  const containers = [aRun({ state: "EXITED", exitCode })];
  const status = statusOf({ sandboxes: [aSandbox()], containers });
  expect([status.phase, buildCondition(status, "Ready")?.reason]).toEqual(want);
});

test("a running pod is initialized and ready", () => {
  const before = [{ type: "example.com/Gate", status: "True" } as const];
  const status = statusOf({
    sandboxes: [aSandbox()],
    containers: [aRun()],
    status: { conditions: before },
  });
  expect(status.phase).toBe("Running");
  expect(status.conditions?.map(({ type, status: is }) => `${type} ${is}`)).toEqual([
    "example.com/Gate True",
    "Initialized True",
    "Ready True",
    "ContainersReady True",
    "PodScheduled True",
  ]);
});
