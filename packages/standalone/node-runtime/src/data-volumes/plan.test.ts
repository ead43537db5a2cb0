// SPDX-License-Identifier: Apache-2.0
import type { DataVolume } from "@patchbay/api";
import type { ContainerStatus, PersistentVolumeClaim, Pod } from "@patchbay/api/kubernetes";
import { describe, expect, test } from "vitest";
import { buildFillerPod, buildOwnerReferences } from "./filler-pod.ts";
import { planDataVolume, type DataVolumeFacts, parseProgress } from "./plan.ts";
import { readDataVolume } from "@patchbay/core/vm";

const NOW = "2026-01-01T00:10:00Z";
const PHASE = "cdi.kubevirt.io/storage.pod.phase";
const STATE = "cdi.kubevirt.io/storage.condition.running.reason";
const MESSAGE = "cdi.kubevirt.io/storage.condition.running.message";
const REGISTRY = { registry: { url: "docker://debian12" } };
const CLONE = { pvc: { name: "gold" } };

function aDataVolume(source: object = REGISTRY): DataVolume {
  const storage = { resources: { requests: { storage: "10Gi" } } };
  return {
    apiVersion: "cdi.kubevirt.io/v1beta1",
    kind: "DataVolume",
    metadata: { name: "root", namespace: "blue", uid: "u1" },
    spec: { source, storage },
  };
}

function aClaim(
  annotations: Readonly<Record<string, string>> = { [PHASE]: "Pending" },
  metadata: Partial<PersistentVolumeClaim["metadata"]> = {},
): PersistentVolumeClaim {
  return {
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: {
      name: "root",
      namespace: "blue",
      annotations,
      ...buildOwnerReferences(aDataVolume()),
      ...metadata,
    },
    spec: {},
    status: { phase: "Bound" },
  };
}

function aPod(status: Pod["status"] = {}, source: object = REGISTRY): Pod {
  const dataVolume = aDataVolume(source);
  const read = readDataVolume(dataVolume.spec, "blue");
  if ("causes" in read) throw new Error("the source is one");
  const pod = buildFillerPod(dataVolume, { order: read.order, sourceMode: "Filesystem" });
  const metadata = { ...pod.metadata, creationTimestamp: "2026-01-01T00:09:45Z" };
  return { ...pod, metadata, status };
}

function container(state: Partial<ContainerStatus>): Pod["status"] {
  const common = { name: "fill", image: "", imageID: "", ready: false, restartCount: 0, state: {} };
  return { phase: "Running", containerStatuses: [{ ...common, ...state }] };
}

function plan(facts: Partial<DataVolumeFacts>) {
  const common = { dataVolume: aDataVolume(), claim: undefined, pod: undefined };
  const source = { sourceClaim: undefined, sourceUsers: [], now: NOW };
  return planDataVolume({ ...common, ...source, ...facts });
}

function kindsOf(facts: Partial<DataVolumeFacts>): readonly string[] {
  return plan(facts).actions.map(({ kind }) => kind);
}

const FAILED_RUN = { terminated: { exitCode: 1, message: "no such host\n" } };

describe("a DataVolume", () => {
  test("creates a claim first, with an annotation that makes a VM wait from the start", () => {
    const [action] = plan({}).actions;
    expect(action).toMatchObject({
      kind: "createClaim",
      claim: {
        metadata: {
          name: "root",
          annotations: { [PHASE]: "Pending" },
          ownerReferences: [{ uid: "u1" }],
        },
        spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "10Gi" } } },
      },
    });
  });

  test.each([
    {
      name: "with a claim gets a pod",
      facts: { claim: aClaim() },
      want: ["reportStatus", "createPod"],
    },
    {
      name: "completes when its pod succeeds",
      facts: { claim: aClaim(), pod: aPod({ phase: "Succeeded" }) },
      want: ["reportClaim", "note", "reportStatus"],
    },
    {
      name: "deletes its pod after completion",
      facts: { claim: aClaim({ [PHASE]: "Succeeded" }), pod: aPod({ phase: "Succeeded" }) },
      want: ["reportStatus", "deletePod"],
    },
    {
      name: "is not filled a second time",
      facts: { claim: aClaim({ [PHASE]: "Succeeded" }) },
      want: ["reportStatus"],
    },
    {
      name: "deletes its pod when its claim is being deleted",
      facts: { claim: aClaim({}, { deletionTimestamp: NOW }), pod: aPod() },
      want: ["deletePod"],
    },
    {
      name: "does not overwrite an existing claim of another owner",
      facts: { claim: aClaim({}, { ownerReferences: [] }) },
      want: ["note", "reportStatus"],
    },
    {
      name: "that is being deleted needs no action",
      facts: {
        dataVolume: { ...aDataVolume(), metadata: { name: "root", deletionTimestamp: NOW } },
      },
      want: [],
    },
    {
      name: "with an unsupported source reports the error",
      facts: { dataVolume: aDataVolume({ upload: {} }) },
      want: ["note", "reportStatus"],
    },
  ])("$name", ({ facts, want }) => {
    expect(kindsOf(facts)).toEqual(want);
  });

  test("takes no action once its state is reported", () => {
    const claim = aClaim({ [PHASE]: "Succeeded" });
    const [action] = plan({ claim }).actions;
    const status = action?.kind === "reportStatus" ? action.status : undefined;
    expect(status).toMatchObject({ phase: "Succeeded", progress: "100.0%", claimName: "root" });
    expect(kindsOf({ claim, dataVolume: { ...aDataVolume(), ...(status && { status }) } })).toEqual(
      [],
    );
  });

  test("replaces an evicted pod after a pause", () => {
    const evicted = { phase: "Failed", reason: "Evicted", message: "the disk is full" } as const;
    const claim = aClaim({
      [PHASE]: "Pending",
      [STATE]: "Error",
      [MESSAGE]: "Evicted: the disk is full",
    });
    const soon = plan({ claim, pod: aPod(evicted) });
    expect(soon.requeueAfterMs).toBe(15_000);
    expect(soon.actions.map(({ kind }) => kind)).not.toContain("deletePod");
    const later = plan({ claim, pod: aPod(evicted), now: "2026-01-01T00:10:15Z" });
    expect(later.actions.map(({ kind }) => kind)).toContain("deletePod");
  });
});

describe("the source claim of a copy", () => {
  const dataVolume = aDataVolume(CLONE);
  const gold = aClaim({}, { name: "gold" });

  test.each([
    {
      name: "does not exist",
      facts: {},
      want: "the claim gold, which is the source of the copy, does not exist",
    },
    {
      name: "is in use",
      facts: { sourceClaim: gold, sourceUsers: ["virt-launcher-a"] },
      want: "the claim gold is in use by pod virt-launcher-a; stop the VM that uses it",
    },
    {
      name: "is being filled",
      facts: { sourceClaim: aClaim({ [PHASE]: "Running" }, { name: "gold" }) },
      want: "the claim gold is being filled itself",
    },
    {
      name: "is being deleted",
      facts: { sourceClaim: aClaim({}, { name: "gold", deletionTimestamp: NOW }) },
      want: "the claim gold is being deleted",
    },
  ])("$name, so the copy waits and reports the reason", ({ facts, want }) => {
    const { actions, requeueAfterMs } = plan({ dataVolume, claim: aClaim(), ...facts });
    expect(requeueAfterMs).toBeGreaterThan(0);
    expect(actions).toMatchObject([
      { kind: "reportClaim", annotations: { [PHASE]: "Pending", [MESSAGE]: want } },
      { kind: "reportStatus", status: { phase: "CloneScheduled" } },
    ]);
  });

  test("is mounted read-only next to the target claim", () => {
    const { actions } = plan({ dataVolume, claim: aClaim(), sourceClaim: gold });
    expect(actions.at(-1)).toMatchObject({
      kind: "createPod",
      pod: {
        spec: {
          volumes: [
            { name: "tmp" },
            { persistentVolumeClaim: { claimName: "gold", readOnly: true } },
            { persistentVolumeClaim: { claimName: "root" } },
          ],
          containers: [
            {
              args: [
                "fill",
                "root",
                "/run/volumes/target/disk.img",
                "/run/volumes/source/disk.img",
                "10737418240",
              ],
            },
          ],
        },
      },
    });
  });
});

test("a download has scratch space for the claim's size, and its URL is escaped", () => {
  const { spec } = aPod({}, { http: { url: "https://a/$(B)/c" } });
  expect(spec.volumes?.[1]).toEqual({ name: "scratch", emptyDir: { sizeLimit: "10304Mi" } });
  expect(spec.containers[0]?.args?.slice(3)).toEqual([
    "https://a/$$(B)/c",
    "10737418240",
    "/run/volumes/scratch",
  ]);
});

describe("progress", () => {
  test.each([
    { name: "a new pod", status: {}, want: { phase: "Pending", hasFailed: false, message: "" } },
    {
      name: "a pod without a node",
      status: {
        phase: "Pending",
        conditions: [{ type: "PodScheduled", status: "False", message: "no room" }],
      } as const,
      want: { phase: "Pending", hasFailed: false, message: "no room" },
    },
    {
      name: "a pod that waits for its image",
      status: container({ state: { waiting: { reason: "ErrImagePull", message: "not found" } } }),
      want: { phase: "Pending", hasFailed: true, message: "ErrImagePull: not found" },
    },
    {
      name: "a pod that is starting",
      status: container({ state: { waiting: { reason: "ContainerCreating" } } }),
      want: { phase: "Pending", hasFailed: false, message: "" },
    },
    {
      name: "a pod that runs",
      status: container({ state: { running: {} }, lastState: FAILED_RUN }),
      want: { phase: "Running", hasFailed: false, message: "" },
    },
    {
      name: "a run that failed",
      status: container({ state: FAILED_RUN }),
      want: { phase: "Running", hasFailed: true, message: "no such host" },
    },
    {
      name: "a run that failed and is about to be repeated",
      status: container({
        state: { waiting: { reason: "CrashLoopBackOff" } },
        lastState: FAILED_RUN,
      }),
      want: { phase: "Running", hasFailed: true, message: "no such host" },
    },
    {
      name: "a run that was killed",
      status: container({ state: { terminated: { exitCode: 137, reason: "OOMKilled" } } }),
      want: { phase: "Running", hasFailed: true, message: "OOMKilled, exit code 137" },
    },
    {
      name: "a pod that has succeeded",
      status: { phase: "Succeeded" } as const,
      want: { phase: "Succeeded", hasFailed: false, message: "" },
    },
  ])("is read from $name", ({ status, want }) => {
    expect(parseProgress(aPod(status))).toEqual(want);
  });
});

describe("the status of a DataVolume", () => {
  const before = [
    { type: "Ready", status: "False", lastTransitionTime: "2026-01-01T00:00:00Z" },
    { type: "Running", status: "True" },
  ] as const;
  const filled = aClaim({ [PHASE]: "Succeeded" });
  const unbound: PersistentVolumeClaim = { ...aClaim(), status: { phase: "Pending" } };

  test.each<{ name: string; facts: Partial<DataVolumeFacts>; want: readonly unknown[] }>([
    {
      name: "with an unbound claim",
      facts: { claim: unbound },
      want: [
        "ImportScheduled",
        "N/A",
        "Bound False Pending",
        "Running False Pending",
        "Ready False Pending",
      ],
    },
    {
      name: "with a claim that is being filled",
      facts: { claim: aClaim(), pod: aPod(container({ state: { running: {} } })) },
      want: [
        "ImportInProgress",
        "N/A",
        "Bound True Bound",
        "Running True Running",
        "Ready False Running",
      ],
    },
    {
      name: "with a claim that is being copied",
      facts: {
        dataVolume: aDataVolume(CLONE),
        claim: aClaim(),
        pod: aPod(container({ state: { running: {} } }), CLONE),
      },
      want: [
        "CloneInProgress",
        "N/A",
        "Bound True Bound",
        "Running True Running",
        "Ready False Running",
      ],
    },
    {
      name: "with a claim after a failed run",
      facts: { claim: aClaim(), pod: aPod(container({ state: FAILED_RUN })) },
      want: [
        "ImportInProgress",
        "N/A",
        "Bound True Bound",
        "Running False Error",
        "Ready False Error",
      ],
    },
    {
      name: "with a filled claim",
      facts: { claim: filled },
      want: [
        "Succeeded",
        "100.0%",
        "Bound True Bound",
        "Running False Completed",
        "Ready True Completed",
      ],
    },
    {
      name: "with a claim of another owner",
      facts: { claim: aClaim({}, { ownerReferences: [] }) },
      want: ["Failed", "N/A", "Bound False Pending", "Running False Error", "Ready False Error"],
    },
  ])("$name", ({ facts, want }) => {
    const action = plan(facts).actions.find(({ kind }) => kind === "reportStatus");
    const {
      phase,
      progress,
      conditions = [],
    } = action?.kind === "reportStatus" ? action.status : {};
    const contents = conditions.map((one) => `${one.type} ${one.status} ${one.reason ?? ""}`);
    expect([phase, progress, ...contents]).toEqual(want);
  });

  test("preserves transition times of unchanged conditions, and is not reported again", () => {
    const dataVolume = { ...aDataVolume(), status: { conditions: before } };
    const facts = { dataVolume, claim: aClaim(), pod: aPod(container({ state: { running: {} } })) };
    const action = plan(facts).actions.find(({ kind }) => kind === "reportStatus");
    const status = action?.kind === "reportStatus" ? action.status : {};
    expect(status.conditions?.map(({ lastTransitionTime }) => lastTransitionTime)).toEqual([
      NOW,
      NOW,
      "2026-01-01T00:00:00Z",
    ]);
    const again = plan({ ...facts, dataVolume: { ...dataVolume, status } });
    expect(again.actions.map(({ kind }) => kind)).not.toContain("reportStatus");
  });

  test("contains a message only for a failure", () => {
    const message = (state: object): unknown => {
      const { actions } = plan({ claim: aClaim(), pod: aPod(container({ state })) });
      const action = actions.find(({ kind }) => kind === "reportStatus");
      const { conditions = [] } = action?.kind === "reportStatus" ? action.status : {};
      return conditions.map((one) => Object.keys(one).includes("message"));
    };
    expect(message(FAILED_RUN)).toEqual([false, true, false]);
    expect(message({ running: {} })).toEqual([false, false, false]);
  });

  test("is not reported for a DataVolume that is being deleted", () => {
    const { metadata } = aDataVolume();
    const dataVolume = { ...aDataVolume(), metadata: { ...metadata, deletionTimestamp: NOW } };
    expect(plan({ dataVolume, claim: aClaim() })).toEqual({ actions: [] });
  });
});
