// SPDX-License-Identifier: Apache-2.0
// What virt-controller says of where a VMI is: phase, times, node and pod.
import { names, type VirtualMachineInstance, type VmiPhase, type VmiStatus } from "@patchbay/api";
import type { Pod } from "@patchbay/api/kubernetes";
import { aPod, aVmi } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import { buildVmiStatus, type ControllerVmiStatus } from "./vmi.ts";
import { CLUSTER } from "../testing/launcher-facts.ts";

const EARLIER = "2026-01-01T00:00:00.000Z";
const NOW = "2026-01-01T01:00:00.000Z";

function podThatIs(phase: "Pending" | "Running" | "Succeeded" | "Failed", more: object = {}): Pod {
  return { ...aPod(), status: { phase, ...more } };
}

/** What prints the guest's console has not ended yet. */
function podWhoseGuestEnded(exitCode: number): Pod {
  const ofAll = { image: "launcher", imageID: "", ready: false, restartCount: 0 };
  const terminated = { exitCode, reason: "Completed" };
  return podThatIs("Running", {
    containerStatuses: [
      { name: names.LAUNCHER_CONTAINER, ...ofAll, state: { terminated } },
      { name: names.CONSOLE_LOG_CONTAINER, ...ofAll, state: { running: {} } },
    ],
  });
}

function report(status: VmiStatus, pod: Pod | undefined): ControllerVmiStatus {
  const facts = { vmi: aVmi({ status }), pod, ...CLUSTER, failures: [] };
  return buildVmiStatus(facts, NOW);
}

/** With an iface on the pod network, before the others. */
function onPodNetwork(vmi: VirtualMachineInstance): VirtualMachineInstance {
  const { domain, networks = [] } = vmi.spec;
  const interfaces = [{ name: "default", bridge: {} }, ...(domain.devices?.interfaces ?? [])];
  return {
    ...vmi,
    spec: {
      ...vmi.spec,
      networks: [{ name: "default", pod: {} }, ...networks],
      domain: { ...domain, devices: { ...domain.devices, interfaces } },
    },
  };
}

describe("the phase of a VMI", () => {
  type Row = {
    readonly before: VmiPhase;
    readonly pod?: Pod;
    readonly hadPod?: boolean;
    readonly want: VmiPhase;
  };
  const pods = { activePods: { "uid-1": "node1" } };
  test.each<Row>([
    { before: "", want: "Pending" },
    { before: "Pending", want: "Pending" },
    { before: "Scheduled", hadPod: true, want: "Failed" },
    { before: "Running", hadPod: true, want: "Failed" },
    { before: "Succeeded", hadPod: true, want: "Succeeded" },
    { before: "Pending", pod: podThatIs("Pending"), want: "Scheduling" },
    { before: "Scheduling", pod: podThatIs("Running"), want: "Scheduled" },
    { before: "Running", pod: podThatIs("Running"), want: "Running" },
    { before: "Running", pod: podThatIs("Pending"), want: "Running" },
    { before: "Running", pod: podThatIs("Succeeded"), want: "Succeeded" },
    { before: "Running", pod: podThatIs("Failed"), want: "Failed" },
    { before: "Scheduling", pod: podThatIs("Failed"), want: "Failed" },
    { before: "Running", pod: podWhoseGuestEnded(0), want: "Succeeded" },
    { before: "Running", pod: podWhoseGuestEnded(1), want: "Failed" },
    { before: "Failed", pod: podThatIs("Running"), want: "Failed" },
    { before: "Succeeded", pod: podThatIs("Failed"), want: "Succeeded" },
  ])("$before with a pod $pod.status.phase: $want", ({ before, pod, hadPod = false, want }) => {
    expect(report({ phase: before, ...(hadPod ? pods : {}) }, pod).phase).toBe(want);
  });
});

describe("the phase during a migration", () => {
  const move = { migrationUid: "m1", sourceNode: "node1", targetNode: "node2" };
  const pods = { "uid-1": "node1", "uid-2": "node2" };
  const before = { phase: "Running", nodeName: "node1", activePods: pods } as const;

  test.each<{ name: string; pod: Pod | undefined; completed: boolean; want: VmiPhase }>([
    { name: "runs", pod: podThatIs("Running"), completed: false, want: "Running" },
    { name: "succeeds", pod: podThatIs("Succeeded"), completed: false, want: "Running" },
    {
      name: "has a container that ended with its guest",
      pod: podWhoseGuestEnded(0),
      completed: false,
      want: "Running",
    },
    { name: "fails", pod: podThatIs("Failed"), completed: false, want: "Running" },
    { name: "is deleted", pod: undefined, completed: false, want: "Running" },
    {
      name: "succeeds after the migration",
      pod: podThatIs("Succeeded"),
      completed: true,
      want: "Succeeded",
    },
    {
      name: "fails after the migration",
      pod: podThatIs("Failed"),
      completed: true,
      want: "Failed",
    },
    { name: "is deleted after the migration", pod: undefined, completed: true, want: "Failed" },
  ])("the owner's pod $name: $want", ({ pod, completed, want }) => {
    const migrationState = completed ? { ...move, completed } : move;
    expect(report({ ...before, migrationState }, pod).phase).toBe(want);
  });
});

describe("a VMI whose node does not respond", () => {
  const nodeLoss = { reason: "NodeUnresponsive", message: "node node1 does not answer" } as const;
  const RAN = [{ phase: "Running", phaseTransitionTimestamp: EARLIER } as const];
  const lost = (status: VmiStatus, pod?: Pod): ControllerVmiStatus =>
    buildVmiStatus({ vmi: aVmi({ status }), pod, ...CLUSTER, failures: [], nodeLoss }, NOW);

  test.each<{ before: VmiPhase; pod: Pod; want: VmiPhase }>([
    { before: "Scheduling", pod: podThatIs("Pending"), want: "Unknown" },
    { before: "Running", pod: podThatIs("Running"), want: "Unknown" },
    { before: "Unknown", pod: podThatIs("Running"), want: "Unknown" },
    { before: "Unknown", pod: podThatIs("Failed"), want: "Failed" },
    { before: "Succeeded", pod: podThatIs("Running"), want: "Succeeded" },
  ])("$before with a pod $pod.status.phase: $want", ({ before, pod, want }) => {
    expect(lost({ phase: before }, pod).phase).toBe(want);
  });

  test.each<{ name: string; status: VmiStatus; want: VmiPhase }>([
    {
      name: "that ran is Running until virt-handler reports",
      status: { phaseTransitionTimestamps: RAN },
      want: "Running",
    },
    { name: "that had not run waits for virt-handler", status: {}, want: "Scheduled" },
  ])("after its node is back, a VMI $name", ({ status, want }) => {
    const before = { phase: "Unknown", ...status } as const;
    expect(report(before, podThatIs("Running")).phase).toBe(want);
  });

  test("fails with that reason after its pod is deleted", () => {
    const before = { phase: "Unknown", activePods: { "uid-1": "node1" } } as const;
    expect(lost(before)).toMatchObject({ phase: "Failed", reason: "NodeUnresponsive" });
    expect(report(before, undefined)).toMatchObject({
      phase: "Failed",
      reason: "NodeUnresponsive",
    });
  });

  test("reports it first in its conditions", () => {
    const blockedReason = {
      reason: "LauncherUnreachable",
      message: "x",
      attempts: 1,
      since: EARLIER,
    };
    const reported = { status: "False", ...nodeLoss };
    expect(
      lost({ phase: "Running", blockedReason: blockedReason }, podThatIs("Running")).conditions,
    ).toMatchObject([
      { type: "Ready", ...reported },
      { type: "Synchronized", ...reported },
      { type: "LiveMigratable", status: "True" },
    ]);
  });

  test("adds requested interfaces and retains existing ones", () => {
    const nics = [{ name: "one" }, { name: "two" }];
    const has = { name: "one", networkName: "default/one", podInterfaceName: "pod1" } as const;
    const vmi = aVmi({
      nics,
      status: { phase: "Running", attachments: [{ ...has, state: "Attached" }] },
    });
    const [network] = vmi.spec.networks ?? [];
    const networkName = `default/${network?.multus?.networkName ?? ""}`;
    const status = {
      [names.NETWORK_STATUS_ANNOTATION]: JSON.stringify([{ name: networkName, interface: "pod1" }]),
    };
    const attachments = [{ ...has, networkName, state: "Attached" as const }];
    const known = { ...vmi, status: { ...vmi.status, attachments } };
    const pod = podThatIs("Running");
    const facts = {
      vmi: known,
      pod: { ...pod, metadata: { ...pod.metadata, annotations: status } },
    };
    const reported = buildVmiStatus({ ...facts, ...CLUSTER, failures: [], nodeLoss }, NOW);
    expect(reported.attachments).toMatchObject([
      { name: "one", state: "Attached" },
      { name: "two", state: "Failed", ...nodeLoss },
    ]);
  });
});

test("each phase has the time of its first observation", () => {
  const observed = { phase: "Pending", phaseTransitionTimestamp: EARLIER } as const;
  const times = (status: VmiStatus, pod?: Pod): unknown =>
    report(status, pod).phaseTransitionTimestamps;
  expect(times({})).toEqual([{ phase: "Pending", phaseTransitionTimestamp: NOW }]);
  expect(times({ phaseTransitionTimestamps: [observed] })).toEqual([observed]);
  expect(times({ phaseTransitionTimestamps: [observed] }, podThatIs("Pending"))).toEqual([
    observed,
    { phase: "Scheduling", phaseTransitionTimestamp: NOW },
  ]);
});

describe("the pod of a VMI", () => {
  const pod = podThatIs("Running");
  const bound = (nodeName?: string): Pod => ({
    ...pod,
    metadata: { ...pod.metadata, uid: "uid-1" },
    spec: { containers: [], ...(nodeName === undefined ? {} : { nodeName }) },
  });

  test("is reported with its node once it is bound", () => {
    expect(report({}, bound("node1"))).toMatchObject({
      nodeName: "node1",
      activePods: { "uid-1": "node1" },
    });
  });

  test.each([{ pod: bound() }, { pod: undefined }])(
    "is not reported before: $pod.spec",
    (input) => {
      const status = report({}, input.pod);
      expect(Object.keys(status).sort()).toEqual([
        "conditions",
        "phase",
        "phaseTransitionTimestamps",
      ]);
    },
  );

  test("reports its networks", () => {
    const annotations = {
      [names.NETWORK_STATUS_ANNOTATION]: JSON.stringify([
        { name: "cbr0", interface: "eth0", default: true, ips: ["10.0.0.5"] },
      ]),
      [names.ATTACHMENT_ERRORS_ANNOTATION]: JSON.stringify({
        pod7692c3ad354: { reason: "CniFailed", message: "no" },
      }),
    };
    const withPod = onPodNetwork(aVmi({ nics: [{ name: "one" }] }));
    const reported = { ...pod, metadata: { ...pod.metadata, annotations } };
    const facts = { vmi: withPod, pod: reported, ...CLUSTER, failures: [] };
    expect(buildVmiStatus(facts, NOW).attachments).toMatchObject([
      { name: "default", podInterfaceName: "eth0", state: "Attached", ips: ["10.0.0.5"] },
      { name: "one", state: "Failed", reason: "CniFailed", message: "no" },
    ]);
  });

  test("falls back to the pod's addresses for the default network", () => {
    const vmi = onPodNetwork(aVmi());
    const input = (addresses: object): unknown => {
      const facts = {
        vmi,
        pod: podThatIs("Running", addresses),
        ...CLUSTER,
        failures: [],
      };
      return buildVmiStatus(facts, NOW).attachments;
    };
    const identity = { name: "default", podInterfaceName: "eth0" };
    expect(input({ podIPs: [{ ip: "10.0.0.5" }, { ip: "fd00::5" }] })).toEqual([
      { ...identity, state: "Attached", ips: ["10.0.0.5", "fd00::5"] },
    ]);
    expect(input({})).toBeUndefined();
  });
});

test.each([
  { paused: "True", want: { status: "False", reason: "ReadinessGatesNotReady" } },
  { paused: "False", want: { status: "True" } },
] as const)("a running guest, paused $paused: Ready is $want.status", ({ paused, want }) => {
  const conditions = [{ type: "Paused", status: paused }];
  const status: VmiStatus = { phase: "Running", conditions };
  const reported = report(status, podThatIs("Running")).conditions ?? [];
  expect(reported).toContainEqual(expect.objectContaining({ type: "Ready", ...want }));
});

describe("the conditions of a VMI", () => {
  const others = { type: "AgentConnected", status: "True", lastTransitionTime: EARLIER } as const;

  test("retains foreign conditions, and groups its own", () => {
    const stale = { type: "Synchronized", status: "False", reason: "Old" } as const;
    const ready = { type: "Ready", status: "True", lastTransitionTime: EARLIER } as const;
    const status: VmiStatus = { phase: "Running", conditions: [others, stale, ready] };
    const own = ["Ready", "LiveMigratable"];
    const { conditions = [] } = report(status, podThatIs("Running"));
    expect(conditions.map(({ type }) => type)).toEqual([...own, "AgentConnected"]);
    expect(conditions).toEqual(expect.arrayContaining([ready, others]));
  });

  test("reports the pod's reason why the guest does not run", () => {
    const container = { name: "compute", image: "i", imageID: "", ready: false, restartCount: 0 };
    const waiting = { reason: "ContainerCreating", message: "soon" };
    const pod = podThatIs("Pending", { containerStatuses: [{ ...container, state: { waiting } }] });
    expect(report({}, pod).conditions).toEqual([
      { type: "Ready", status: "False", ...waiting, lastTransitionTime: NOW },
    ]);
    expect(report({}, undefined).conditions).toEqual([
      {
        type: "Ready",
        status: "False",
        reason: "GuestNotRunning",
        message: "Guest VM is not reported as running",
        lastTransitionTime: NOW,
      },
    ]);
  });
});
