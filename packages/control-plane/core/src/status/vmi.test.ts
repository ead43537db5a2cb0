// SPDX-License-Identifier: Apache-2.0
import { aPod, aVmi } from "@patchbay/support";
import { expect, test } from "vitest";
import { buildVmiStatus } from "./vmi.ts";
import { CLUSTER } from "../testing/launcher-facts.ts";

const NOW = "2026-01-01T00:00:00.000Z";

test("reports virt-handler's blocked reason as conditions until it ends", () => {
  const blockedReason = {
    reason: "GuestNotStarted",
    message: "no kernel",
    attempts: 3,
    since: NOW,
  };
  const conditionsOf = (status: { readonly blockedReason?: typeof blockedReason }) => {
    const vmi = aVmi({ status: { phase: "Scheduled", ...status } });
    const report = { vmi, pod: aPod(), ...CLUSTER, failures: [] };
    return buildVmiStatus(report, NOW).conditions;
  };
  const reported = { status: "False", reason: "GuestNotStarted", message: "no kernel" };
  expect(conditionsOf({ blockedReason: blockedReason })).toMatchObject([
    { type: "Ready", ...reported },
    { type: "Synchronized", ...reported },
  ]);
  expect(conditionsOf({})).toMatchObject([{ type: "Ready", reason: "GuestNotRunning" }]);
});

test.each([
  { name: "has no conditions yet", ready: undefined, want: { status: "True" } },
  { name: "is ready", ready: { status: "True" }, want: { status: "True" } },
  {
    name: "is not ready",
    ready: { status: "False", reason: "ContainersNotReady", message: "unready: [compute]" },
    want: { status: "False", reason: "ContainersNotReady", message: "unready: [compute]" },
  },
  {
    name: "is not ready and reports no reason",
    ready: { status: "False" },
    want: {
      status: "False",
      reason: "ContainersNotReady",
      message: "the launcher pod is not ready",
    },
  },
] as const)("Ready of a running guest whose pod $name: $want.status", ({ ready, want }) => {
  const pod = aPod();
  const conditions = ready === undefined ? [] : [{ type: "Ready", ...ready }];
  const report = {
    vmi: aVmi({ status: { phase: "Running" } }),
    pod: { ...pod, status: { ...pod.status, conditions } },
    ...CLUSTER,
    failures: [],
  };
  expect(buildVmiStatus(report, NOW).conditions?.[0]).toEqual({
    type: "Ready",
    lastTransitionTime: NOW,
    ...want,
  });
});

test("reports in reason and conditions why the node rejected a launcher", () => {
  const reason = "UnexpectedAdmissionError";
  const message = "Allocate failed due to no devices available for devices.kubevirt.io/tun";
  const pod = { ...aPod(), status: { phase: "Failed", reason, message } } as const;
  const vmi = aVmi({ status: { phase: "Scheduling" } });
  const report = buildVmiStatus({ vmi, pod, ...CLUSTER, failures: [] }, NOW);
  expect(report).toMatchObject({ phase: "Failed", reason });
  expect(report.conditions).toMatchObject([
    { type: "Ready", status: "False", reason, message },
    { type: "Synchronized", status: "False", reason, message },
  ]);
  expect(report.attachments?.filter(({ state }) => state === "Attached") ?? []).toEqual([]);
});

test.each([
  { volume: { emptyDir: {} }, told: "PodFieldDropped" },
  { volume: { image: { reference: "guest" } }, told: undefined },
])("reports $told for a launcher whose kernel volume is $volume", ({ volume, told: reported }) => {
  const pod = aPod();
  const volumes = [{ name: "kernel-boot", ...volume }];
  const report = {
    vmi: aVmi({ status: { phase: "Scheduled" } }),
    pod: { ...pod, spec: { ...pod.spec, volumes } },
    ...CLUSTER,
    failures: [],
  };
  const { conditions = [] } = buildVmiStatus(report, NOW);
  expect(conditions.find(({ type }) => type === "Synchronized")?.reason).toBe(reported);
});
