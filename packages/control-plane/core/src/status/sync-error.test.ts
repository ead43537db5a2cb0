// SPDX-License-Identifier: Apache-2.0
// What people are told first, of all that stands in the way.
import type { VirtualMachine } from "@patchbay/api";
import type { ContainerStatus, Pod } from "@patchbay/api/kubernetes";
import { aPod, aVm, aVmi } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import type { StepFailure } from "./step-failure.ts";
import {
  findSyncError,
  findWaiting,
  newSyncError,
  buildSynchronizedCondition,
  findVmiSyncError,
  findVmSyncError,
  type VmiStatusFacts,
  type VmStatusFacts,
} from "./sync-error.ts";
import { CLUSTER } from "../testing/launcher-facts.ts";

const NOW = "2026-01-01T00:00:00.000Z";
const REFUSED: StepFailure = { step: "createPod", message: "no room" };
const BLOCKED = { reason: "GuestNotStarted", message: "no kernel", attempts: 1, since: NOW };
const UNSCHEDULABLE = {
  type: "PodScheduled",
  status: "False",
  reason: "Unschedulable",
  message: "no node",
} as const;

function podWith(status: NonNullable<Pod["status"]>): Pod {
  return { ...aPod(), status };
}

function podThatWaits(reason: string, message?: string): Pod {
  const reported = message === undefined ? { reason } : { reason, message };
  const container = { name: "compute", image: "i", imageID: "", ready: false, restartCount: 0 };
  return podWith({
    containerStatuses: [
      { ...container, state: { running: { startedAt: NOW } } },
      { ...container, state: { waiting: reported } },
    ],
  });
}

function situation(more: Partial<VmiStatusFacts> = {}): VmiStatusFacts {
  return { vmi: aVmi(), pod: aPod(), ...CLUSTER, failures: [], ...more };
}

describe("a VMI is blocked", () => {
  const blocked = aVmi({ status: { blockedReason: BLOCKED } });
  test.each([
    { name: "by nothing", given: {}, want: undefined },
    { name: "by nothing while it has no pod", given: { pod: undefined }, want: undefined },
    {
      name: "by a rejected step",
      given: { failures: [REFUSED], vmi: blocked },
      want: { reason: "FailedCreate", message: "no room" },
    },
    {
      name: "by its node's report",
      given: { vmi: blocked, pod: podWith({ conditions: [UNSCHEDULABLE] }) },
      want: { reason: "GuestNotStarted", message: "no kernel" },
    },
    {
      name: "by the scheduler",
      given: { pod: podWith({ conditions: [{ type: "Other", status: "True" }, UNSCHEDULABLE] }) },
      want: { reason: "Unschedulable", message: "no node" },
    },
    {
      name: "by the scheduler without a message",
      given: {
        pod: podWith({
          conditions: [{ type: "PodScheduled", status: "False", reason: "Unschedulable" }],
        }),
      },
      want: { reason: "Unschedulable", message: "" },
    },
    {
      name: "not before the scheduler has tried",
      given: {
        pod: podWith({ conditions: [{ ...UNSCHEDULABLE, reason: "SchedulerError" }] }),
      },
      want: undefined,
    },
    {
      name: "not after the scheduler has found a node",
      given: { pod: podWith({ conditions: [{ ...UNSCHEDULABLE, status: "True" }] }) },
      want: undefined,
    },
    {
      name: "by an image that cannot be pulled",
      given: { pod: podThatWaits("ErrImagePull", "no such image") },
      want: { reason: "ErrImagePull", message: "no such image" },
    },
    {
      name: "not by a container that is being created",
      given: { pod: podThatWaits("ContainerCreating") },
      want: undefined,
    },
  ])("$name", ({ given: input, want }) => {
    expect(findVmiSyncError(situation(input))).toEqual(want);
  });

  test.each([
    "ErrImageNeverPull",
    "ErrImagePull",
    "ImagePullBackOff",
    "ImageInspectError",
    "InvalidImageName",
    "RegistryUnavailable",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
  ])("by %s", (reason) => {
    expect(findVmiSyncError(situation({ pod: podThatWaits(reason) }))).toEqual({
      reason,
      message: "",
    });
  });
});

test("reports any waiting reason of a container", () => {
  expect(findWaiting(undefined)).toBeUndefined();
  expect(findWaiting(podWith({}))).toBeUndefined();
  expect(findWaiting(podThatWaits("ContainerCreating"))).toEqual({
    reason: "ContainerCreating",
    message: "",
  });
});

describe("an image volume of the pod", () => {
  const podWithMessage = (message: string): Pod => {
    const waiting = { reason: "ImagePullBackOff", message };
    const status = { image: "resolved", imageID: "", ready: false, restartCount: 0 };
    const pod = podWith({
      initContainerStatuses: [{ ...status, name: "prepare-disks", state: { waiting } }],
    });
    const volumes = [
      { name: "kernel-boot", image: { reference: "a" } },
      { name: "image-2", image: { reference: "debian12" } },
    ];
    const initContainers = [{ name: "prepare-disks", image: "launcher" }];
    return { ...pod, spec: { ...pod.spec, volumes, initContainers } };
  };

  test.each([
    {
      message: "image debian12 cannot be pulled",
      want: "image debian12 of spec.volumes[2]: image debian12 cannot be pulled",
    },
    {
      message: 'Back-off pulling image "debian12"',
      want: 'image debian12 of spec.volumes[2]: Back-off pulling image "debian12"',
    },
    {
      message: "image a is not there",
      want: "image a of firmware.kernelBoot.container: image a is not there",
    },
    {
      message: "image launcher is not there",
      want: "launcher image launcher: image launcher is not there",
    },
  ])("is told as the VM's: $message", ({ message, want }) => {
    expect(findVmiSyncError(situation({ pod: podWithMessage(message) }))).toEqual({
      reason: "ImagePullBackOff",
      message: want,
    });
  });
});

describe("a container that copies disks", () => {
  const status = { imageID: "", ready: false, restartCount: 0, image: "resolved" };
  const podIn = (name: string, state: ContainerStatus["state"]): Pod => {
    const pod = podWith({ initContainerStatuses: [{ ...status, name, state }] });
    const initContainers = [
      { name: "image-2", image: "debian" },
      { name: "prepare-disks", image: "launcher" },
    ];
    const volumes = [{ name: "image-1", image: { reference: "fedora" } }];
    return { ...pod, spec: { ...pod.spec, initContainers, volumes } };
  };
  const ended = (message: string): ContainerStatus["state"] => ({
    terminated: { exitCode: 3, reason: "Error", message },
  });
  const pulling = (message: string): ContainerStatus["state"] => ({
    waiting: { reason: "ErrImagePull", message },
  });

  test.each([
    {
      name: "rejects an image with its own message",
      pod: podIn("prepare-disks", ended("prepare-disks: disk root: is a vmdk; convert it\n")),
      want: {
        reason: "DiskNotPrepared",
        message: "prepare-disks: disk root: is a vmdk; convert it",
      },
    },
    {
      name: "finds no disk in an image",
      pod: podIn("image-2", ended("/disk: not there")),
      want: {
        reason: "DiskNotPrepared",
        message: "the disk was not copied: image debian of spec.volumes[2]: /disk: not there",
      },
    },
    {
      name: "has no image to copy from",
      pod: podIn("image-2", pulling("not found")),
      want: { reason: "ErrImagePull", message: "image debian of spec.volumes[2]: not found" },
    },
  ])("$name", ({ pod, want }) => {
    expect(findVmiSyncError(situation({ pod }))).toEqual(want);
  });
});

describe("a container that copies the kernel", () => {
  const initContainers = [
    { name: "copy-files", image: "launcher" },
    { name: "kernel-boot", image: "guest" },
  ];
  const status = { image: "resolved", imageID: "", ready: false, restartCount: 0 };
  const waitingFor = (reason: string, message?: string): ContainerStatus["state"] => ({
    waiting: message === undefined ? { reason } : { reason, message },
  });
  const DONE = { terminated: { exitCode: 0, reason: "Completed" } };
  const LATER = waitingFor("PodInitializing");
  const podIn = (tool: ContainerStatus["state"], kernel: ContainerStatus["state"]): Pod => {
    const pod = podWith({
      initContainerStatuses: [
        { ...status, name: "copy-files", state: tool },
        { ...status, name: "kernel-boot", state: kernel },
      ],
      containerStatuses: [{ ...status, name: "compute", state: LATER }],
    });
    return { ...pod, spec: { ...pod.spec, initContainers } };
  };
  const failed = (end: object): ContainerStatus["state"] => ({
    terminated: { exitCode: 1, reason: "Error", ...end },
  });
  const notCopied = (text: string): object => ({
    reason: "KernelNotCopied",
    message: `kernel and initrd were not copied: ${text}`,
  });

  test.each([
    {
      name: "does not block while it runs",
      pod: podIn(DONE, { running: {} }),
      want: undefined,
    },
    {
      name: "cannot pull the user's image",
      pod: podIn(DONE, waitingFor("ErrImagePull", "not found")),
      want: {
        reason: "ErrImagePull",
        message: "image guest of firmware.kernelBoot.container: not found",
      },
    },
    {
      name: "cannot pull Patchbay's image",
      pod: podIn(waitingFor("ErrImageNeverPull", "not there"), LATER),
      want: { reason: "ErrImageNeverPull", message: "launcher image launcher: not there" },
    },
    {
      name: "finds no file, and reports that in several lines",
      pod: podIn(DONE, failed({ message: " /vmlinuz: not there\n /initrd: not there\n" })),
      want: notCopied(
        "image guest of firmware.kernelBoot.container: /vmlinuz: not there; /initrd: not there",
      ),
    },
    {
      name: "ends without a message",
      pod: podIn(DONE, failed({ exitCode: 137, reason: "OOMKilled" })),
      want: notCopied("image guest of firmware.kernelBoot.container: OOMKilled, exit code 137"),
    },
    {
      name: "ends without any reason",
      pod: podIn({ terminated: { exitCode: 2 } }, LATER),
      want: notCopied("launcher image launcher: Error, exit code 2"),
    },
  ])("$name", ({ pod, want }) => {
    expect(findVmiSyncError(situation({ pod }))).toEqual(want);
  });

  test("reports the waiting reasons of other containers", () => {
    expect(findWaiting(podIn(DONE, { running: {} }))).toEqual({
      reason: "PodInitializing",
      message: "",
    });
  });
});

describe("a VM is blocked", () => {
  const startProblems = [{ field: "spec.a", message: "is not supported yet" }];
  const reported = {
    type: "Synchronized",
    status: "False",
    reason: "GuestNotStarted",
    message: "no kernel",
  } as const;
  const vmi = aVmi({ status: { conditions: [reported] } });
  const vm = aVm();
  const between = (reason: string): VirtualMachine => ({
    ...vm,
    status: {
      startFailure: { consecutiveFailCount: 1, lastFailedVMIUID: "u", retryAfterTimestamp: NOW },
      conditions: [{ ...reported, reason }],
    },
  });
  const nothing: VmStatusFacts = {
    vm,
    vmi: undefined,
    startProblems: [],
    hasNameConflict: false,
    failures: [],
    bindings: {},
    isStaged: false,
    waitsForBinding: false,
  };
  const nameTaken = {
    reason: "NameTaken",
    message: `a VirtualMachineInstance ${vm.metadata.name} exists that does not belong to this VM; delete it or rename the VM`,
  };

  test.each<{ name: string; given: Partial<VmStatusFacts>; want: object | undefined }>([
    { name: "by nothing", given: {}, want: undefined },
    {
      name: "by its own specification first",
      given: { startProblems, hasNameConflict: true, failures: [REFUSED], vmi },
      want: { reason: "UnsupportedSpec", message: expect.stringContaining("spec.a") as string },
    },
    {
      name: "by an unrelated VMI with its name",
      given: { hasNameConflict: true, failures: [REFUSED], vmi },
      want: nameTaken,
    },
    {
      name: "by a rejected step",
      given: { failures: [REFUSED], vmi },
      want: { reason: "FailedCreate", message: "no room" },
    },
    {
      name: "by its VMI's sync error",
      given: { vmi },
      want: { reason: "GuestNotStarted", message: "no kernel" },
    },
    { name: "not by a VMI without a sync error", given: { vmi: aVmi() }, want: undefined },
    {
      name: "between two starts by the previous start's error",
      given: { vm: between("KernelNotCopied") },
      want: { reason: "KernelNotCopied", message: "no kernel" },
    },
    {
      name: "not by other errors between two starts",
      given: { vm: between("GuestNotStarted") },
      want: undefined,
    },
    {
      name: "not after it is stopped",
      given: {
        vm: { ...vm, status: { conditions: [{ ...reported, reason: "KernelNotCopied" }] } },
      },
      want: undefined,
    },
    {
      name: "not after it starts again",
      given: { vm: between("KernelNotCopied"), vmi: aVmi() },
      want: undefined,
    },
  ])("$name", ({ given: input, want }) => {
    expect(findVmSyncError({ ...nothing, ...input })).toEqual(want);
  });
});

describe("a sync error as a condition", () => {
  const one = { reason: "One", message: "first" };

  test("round-trips", () => {
    expect(buildSynchronizedCondition(undefined)).toEqual([]);
    expect(buildSynchronizedCondition(one)).toEqual([
      { type: "Synchronized", status: "False", ...one },
    ]);
    expect(findSyncError(buildSynchronizedCondition(one))).toEqual(one);
  });

  test.each([
    { conditions: undefined, want: undefined },
    { conditions: [], want: undefined },
    { conditions: [{ type: "Synchronized", status: "True", ...one }], want: undefined },
    { conditions: [{ type: "Ready", status: "False", ...one }], want: undefined },
    { conditions: [{ type: "Synchronized", status: "False" }], want: { reason: "", message: "" } },
  ] as const)("in $conditions is $want", ({ conditions, want }) => {
    expect(findSyncError(conditions)).toEqual(want);
  });

  test.each([
    { name: "is reported when it appears", before: undefined, now: one, want: one },
    { name: "is not reported while it stays", before: one, now: one, want: undefined },
    { name: "is not reported when it disappears", before: one, now: undefined, want: undefined },
    {
      name: "is reported with a different reason",
      before: { ...one, reason: "Two" },
      now: one,
      want: one,
    },
    {
      name: "is reported with a different message",
      before: { ...one, message: "b" },
      now: one,
      want: one,
    },
  ])("$name", ({ before, now, want }) => {
    expect(
      newSyncError(buildSynchronizedCondition(before), buildSynchronizedCondition(now)),
    ).toEqual(want);
  });
});
