// SPDX-License-Identifier: Apache-2.0
import type { ContainerStateDetails, Pod } from "@patchbay/api/kubernetes";
import type { ContainerState, ContainerSummary } from "@patchbay/core/interfaces";
import { expect, test } from "vitest";
import { findLogRun, findRunningRun, type PodWithContainers } from "./request.ts";

const OF = { namespace: "ns", pod: "p", container: "c" };

function podOf(state: ContainerStateDetails | undefined): Pod {
  const status = { name: "c", image: "i", imageID: "i", ready: false, restartCount: 0 };
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { namespace: "ns", name: "p", uid: "u" },
    spec: { containers: [{ name: "c", image: "i" }], initContainers: [{ name: "i", image: "i" }] },
    ...(state === undefined ? {} : { status: { containerStatuses: [{ ...status, state }] } }),
  };
}

/** Runs of container c by attempt, from 0. */
function runs(...states: readonly ContainerState[]): readonly ContainerSummary[] {
  return states.map((state, attempt) => ({
    id: `run-${String(attempt)}`,
    sandboxId: "s",
    name: "c",
    attempt,
    state,
    createdAt: 0n,
    image: "i",
    labels: {},
    annotations: {},
  }));
}

const RUNNING = { running: {} };
const BACK_OFF = { waiting: { reason: "CrashLoopBackOff" } };

function known(
  state: ContainerStateDetails | undefined,
  ...states: ContainerState[]
): PodWithContainers {
  return { pod: podOf(state), containers: runs(...states) };
}

test.each([
  {
    name: "the running container",
    given: known(RUNNING, "EXITED", "RUNNING"),
    previous: false,
    want: "run-1",
  },
  {
    name: "the previous run",
    given: known(RUNNING, "EXITED", "RUNNING"),
    previous: true,
    want: "run-0",
  },
  { name: "a terminated container", given: known({}, "EXITED"), previous: false, want: "run-0" },
  {
    name: "the last run during a back-off",
    given: known(BACK_OFF, "EXITED", "EXITED"),
    previous: false,
    want: "run-1",
  },
  {
    name: "the last run during a back-off, also with previous",
    given: known(BACK_OFF, "EXITED", "EXITED"),
    previous: true,
    want: "run-1",
  },
  {
    name: "the last started run during a back-off",
    given: known(BACK_OFF, "EXITED", "CREATED"),
    previous: false,
    want: "run-0",
  },
])("the log of $name", ({ given, previous, want }) => {
  expect(findLogRun(given, OF, previous)).toEqual({ kind: "found", id: want });
});

test.each([
  {
    name: "the pod is missing",
    given: undefined,
    of: OF,
    previous: false,
    want: [404, 'pod "p" does not exist'],
  },
  {
    name: "the container is missing",
    given: known(RUNNING),
    of: { ...OF, container: "x" },
    previous: false,
    want: [404, 'container "x" not found in pod "p"'],
  },
  {
    name: "the previous run is missing",
    given: known(RUNNING, "RUNNING"),
    of: OF,
    previous: true,
    want: [400, 'previous terminated container "c" in pod "p" not found'],
  },
  {
    name: "the init container is waiting",
    given: known(undefined),
    of: { ...OF, container: "i" },
    previous: false,
    want: [400, 'container "i" in pod "p" is not available'],
  },
  ...[
    ["ContainerCreating", "ContainerCreating"],
    ["ErrImagePull", "image can't be pulled"],
    ["ImagePullBackOff", "trying and failing to pull image"],
  ].map(([reason = "", text = ""]) => ({
    name: `the container is waiting: ${reason}`,
    given: known({ waiting: { reason } }),
    of: OF,
    previous: false,
    want: [400, `container "c" in pod "p" is waiting to start: ${text}`],
  })),
])("finds no log: $name", ({ given, of, previous, want: [code, message] }) => {
  expect(findLogRun(given, of, previous)).toEqual({ kind: "refused", code, message });
});

test("programs start only in a running container", () => {
  expect(findRunningRun(known(RUNNING, "EXITED", "RUNNING"), OF)).toEqual({
    kind: "found",
    id: "run-1",
  });
  expect(findRunningRun(undefined, OF)).toMatchObject({ code: 404, message: "pod does not exist" });
  expect(findRunningRun(known(BACK_OFF, "EXITED"), OF)).toMatchObject({
    code: 500,
    message: 'container not found ("c")',
  });
});
