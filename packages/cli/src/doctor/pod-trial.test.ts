// SPDX-License-Identifier: Apache-2.0
import { PODS } from "@patchbay/api";
import type { Pod } from "@patchbay/api/kubernetes";
import type { Reflection } from "@patchbay/kube";
import { createFakeStore } from "@patchbay/kube/testing";
import { createClock } from "@patchbay/os";
import { createFakeClock } from "@patchbay/os/testing";
import { expect, test } from "vitest";
import type { Session } from "../session.ts";
import { judgePodStart } from "./checks/nodes.ts";
import { readTrial, tryPod } from "./pod-trial.ts";
import { healthyFacts } from "./testing.ts";

const DENIED = 'exec: "/usr/bin/true": stat /usr/bin/true: permission denied';

type Status = NonNullable<Pod["status"]>;
type State = NonNullable<NonNullable<Status["containerStatuses"]>[number]["state"]>;

function statusOf(phase: Status["phase"], state: State): Status {
  // Only these members are read.
  return { phase, containerStatuses: [{ name: "trial", state }] } as unknown as Status;
}

const starting = (reason: string): State => ({ waiting: { reason } });

test.each<{ name: string; status: Status | undefined; want: unknown }>([
  { name: "no status", status: undefined, want: undefined },
  {
    name: "a container that is being created",
    status: statusOf("Pending", starting("ContainerCreating")),
    want: undefined,
  },
  { name: "a succeeded container", status: statusOf("Succeeded", {}), want: {} },
  {
    name: "a container that the runtime rejects",
    status: statusOf("Pending", { waiting: { reason: "RunContainerError", message: DENIED } }),
    want: { problem: `RunContainerError: ${DENIED}` },
  },
  {
    name: "a missing image",
    status: statusOf("Pending", starting("ErrImageNeverPull")),
    want: { problem: "ErrImageNeverPull" },
  },
  {
    name: "a program that could not start",
    status: statusOf("Failed", {
      terminated: { exitCode: 128, reason: "StartError", message: DENIED },
    }),
    want: { problem: `StartError: ${DENIED}` },
  },
  {
    name: "a failure without a reason",
    status: statusOf("Failed", {}),
    want: { problem: "its program failed" },
  },
])("reads $name", ({ status, want }) => {
  expect(readTrial(status === undefined ? {} : { status })).toEqual(want);
});

test("tryPod deletes the pod", async () => {
  const store = createFakeStore();
  const created: Pod[] = [];
  const node = {
    delete: store.delete.bind(store),
    create: async (...args: Parameters<typeof store.create>) => {
      created.push((await store.create(...args)) as unknown as Pod);
    },
  };
  const status = statusOf("Failed", { terminated: { exitCode: 1, reason: "", message: DENIED } });
  const reflect = () => ({
    subscribe: (listen: (change: Reflection<Pod>) => void) => {
      listen({ kind: "listed", objects: created });
      const [pod] = created;
      if (pod !== undefined)
        queueMicrotask(() => {
          listen({ kind: "applied", object: { ...pod, status } });
        });
      return { unsubscribe: () => undefined };
    },
  });
  // Only these members are used.
  const session = { client: { store: node, reflect }, clock: createClock(), namespace: "ns" };
  expect(await tryPod(session as unknown as Session, new AbortController().signal)).toEqual({
    problem: DENIED,
  });
  expect(created.map(({ metadata }) => metadata.namespace)).toEqual(["ns"]);
  expect((await store.list(PODS)).items).toEqual([]);
});

test("a pod that does not start is stuck only if it no longer changes", async () => {
  const store = createFakeStore();
  const clock = createFakeClock();
  let changed = (): void => undefined;
  const reflect = () => ({
    subscribe: (listen: (change: Reflection<Pod>) => void) => {
      const status = statusOf("Pending", starting("ContainerCreating"));
      // Only its status is read.
      const pod = {} as Pod;
      changed = () => {
        listen({ kind: "applied", object: { ...pod, status } });
      };
      return { unsubscribe: () => undefined };
    },
  });
  // Only these members are used.
  const session = { client: { store, reflect }, clock, namespace: "ns" } as unknown as Session;
  const trial = tryPod(session, new AbortController().signal);
  for (let step = 0; step < 3; step += 1) {
    await clock.advance(59_000);
    changed();
  }
  await clock.advance(60_000);
  expect(await trial).toEqual({ problem: "it has not started, and has not changed for 60 s" });
  expect(clock.monotonicMs()).toBe(3 * 59_000 + 60_000);
});

test.each([
  { name: "unset on a cluster", given: {}, want: [] },
  {
    name: "rejected by the server",
    given: { podTrial: { failure: "forbidden" } },
    want: ["unknown"],
  },
  { name: "successful", given: { podTrial: { value: {} } }, want: ["ok"] },
  { name: "failed", given: { podTrial: { value: { problem: DENIED } } }, want: ["wrong"] },
])("reports a trial that is $name", ({ given, want }) => {
  const findings = judgePodStart({ ...healthyFacts(), ...given });
  expect(findings.map(({ verdict }) => verdict)).toEqual(want);
  expect(
    findings.every(({ message, verdict }) => verdict !== "wrong" || message.includes(DENIED)),
  ).toBe(true);
});
