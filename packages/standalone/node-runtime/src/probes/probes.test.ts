// SPDX-License-Identifier: Apache-2.0
// When probes are asked, and who is woken; on a clock that a test moves.
import type { Container, Pod } from "@patchbay/api/kubernetes";
import type { ContainerRuntime, ExecResult } from "@patchbay/core/interfaces";
import { createFakeClock, type FakeClock } from "@patchbay/os/testing";
import { createSilentLogger } from "@patchbay/telemetry";
import { beforeEach, describe, expect, test } from "vitest";
import type { Probes } from "../pods/deps.ts";
import { aContainer, aPod, aRun, UID } from "../testing/pods.ts";
import { createProbes } from "./probes.ts";

const ID = "c1";

type ExecCall = Parameters<ContainerRuntime["execSync"]>;

let clock: FakeClock;
let probes: Probes;
let stop: AbortController;
/** What the program of each probe says; undefined: it has not ended. */
let answers: Map<string, number>;
let asked: string[];
let woken: number;
let events: string[];
/** Of which container, and for how long at most. */
let calls: { readonly id: string; readonly timeoutSeconds: number }[];
/** Resolves when programs end. */
let ended: Promise<undefined>;

beforeEach(() => {
  clock = createFakeClock();
  stop = new AbortController();
  answers = new Map();
  asked = [];
  events = [];
  ended = Promise.resolve(undefined);
  woken = 0;
  calls = [];
  const execSync = async (...call: ExecCall): Promise<ExecResult> => {
    const [id, [name = ""], timeoutSeconds] = call;
    calls.push({ id, timeoutSeconds });
    asked.push(`${String(clock.now() / 1000)} ${name}`);
    await ended;
    return { exitCode: answers.get(name) ?? 0, stdout: "said", stderr: "" };
  };
  const recorder = {
    record: (_pod: unknown, note: { readonly message: string }) => {
      events.push(note.message);
    },
    flush: () => Promise.resolve(),
  };
  const wake = (): void => {
    woken += 1;
  };
  const log = createSilentLogger();
  probes = createProbes(
    { runtime: { execSync }, clock, log, recorder, hostIp: "192.0.2.1", wake },
    stop.signal,
  );
});

function probe(name: string, change: object = {}) {
  return { exec: { command: [name] }, periodSeconds: 5, ...change };
}

function podOf(container: Partial<Container>, status: Pod["status"] = {}): Pod {
  return { ...aPod({ containers: [aContainer(container)] }), status };
}

function retain(pod: Pod, ids: readonly string[] = [ID]): void {
  probes.retain(
    UID,
    ids.map((id) => ({
      pod,
      container: aRun({ id, name: "compute", state: "RUNNING", startedAt: 0n }),
      podIps: ["10.0.0.2"],
    })),
  );
}

function health(id = ID) {
  return probes.findHealth(UID).get(id);
}

describe("probes", () => {
  test("do not exist without a spec", () => {
    retain(podOf({}));
    expect(probes.findHealth(UID).size).toBe(0);
  });

  test("run after their delay and in their period, and report changes", async () => {
    retain(
      podOf({ readinessProbe: probe("ready", { initialDelaySeconds: 2, failureThreshold: 2 }) }),
    );
    await clock.advance(1000);
    expect([asked, health()?.isReady]).toEqual([[], false]);
    await clock.advance(1000);
    expect([asked, health()?.isReady, woken]).toEqual([["2 ready"], true, 1]);
    answers.set("ready", 1);
    await clock.advance(5000);
    expect([health()?.isReady, woken]).toEqual([true, 1]);
    await clock.advance(5000);
    expect([asked, health()?.isReady, woken]).toEqual([
      ["2 ready", "7 ready", "12 ready"],
      false,
      2,
    ]);
    expect(events).toEqual(["Readiness probe failed: said"]);
  });

  test("run at most ten at a time per pod", async () => {
    const end = Promise.withResolvers<undefined>();
    ended = end.promise;
    const ids = Array.from({ length: 25 }, (_, index) => `c${String(index)}`);
    retain(podOf({ readinessProbe: probe("ready") }), ids);
    await clock.advance(0);
    await clock.advance(20_000);
    expect(asked).toHaveLength(10);
    end.resolve(undefined);
    await clock.advance(0);
    expect(asked).toHaveLength(25);
  });

  test("skip an unhealthy container until it is restarted", async () => {
    answers.set("live", 1);
    const pod = podOf({ livenessProbe: probe("live", { failureThreshold: 1 }) });
    retain(pod);
    await clock.advance(0);
    expect([health()?.isUnhealthy, woken]).toEqual([true, 1]);
    await clock.advance(5000);
    await clock.advance(5000);
    expect(asked).toEqual(["0 live"]);
    answers.set("live", 0);
    retain(pod, ["c2"]);
    await clock.advance(0);
    expect([health()?.isUnhealthy, health("c2")?.isUnhealthy]).toEqual([undefined, false]);
    expect(asked).toEqual(["0 live", "10 live"]);
  });

  test("begin after the startup probe succeeded, which then ends", async () => {
    answers.set("start", 1);
    retain(
      podOf({
        startupProbe: probe("start", { failureThreshold: 5 }),
        readinessProbe: probe("ready"),
      }),
    );
    await clock.advance(0);
    expect([asked, health()?.isStarted]).toEqual([["0 start"], false]);
    answers.set("start", 0);
    await clock.advance(5000);
    expect(health()?.isStarted).toBe(true);
    await clock.advance(5000);
    await clock.advance(5000);
    expect(asked.filter((line) => line.endsWith("start"))).toEqual(["0 start", "5 start"]);
    expect(health()).toEqual({ isStarted: true, isReady: true, isUnhealthy: false });
  });

  test("continue with the reported state of the same run", () => {
    const status = {
      name: "compute",
      image: "i",
      imageID: "i",
      ready: true,
      started: true,
      restartCount: 0,
      state: {},
    };
    const both = { readinessProbe: probe("ready"), startupProbe: probe("start") };
    retain(podOf(both, { containerStatuses: [{ ...status, containerID: `containerd://${ID}` }] }));
    expect(health()).toMatchObject({ isReady: true, isStarted: true });
    retain(podOf(both, { containerStatuses: [{ ...status, containerID: "containerd://other" }] }), [
      "c2",
    ]);
    expect(health("c2")).toMatchObject({ isReady: false, isStarted: false });
  });

  test("end with their container and with the process", async () => {
    const pod = podOf({ readinessProbe: probe("ready") });
    retain(pod);
    await clock.advance(0);
    retain(pod, []);
    expect(clock.dueMs).toEqual([]);
    retain(pod);
    await clock.advance(0);
    stop.abort();
    expect(clock.dueMs).toEqual([]);
    expect(asked).toHaveLength(2);
  });

  test("run in the right container with the specified timeout", async () => {
    const pod = podOf({ readinessProbe: probe("ready", { timeoutSeconds: 3 }) });
    const other = aContainer({ name: "other", readinessProbe: probe("wrong") });
    const containers = [other, ...pod.spec.containers];
    retain({ ...pod, spec: { ...pod.spec, containers } });
    await clock.advance(0);
    expect([asked, calls]).toEqual([["0 ready"], [{ id: ID, timeoutSeconds: 3 }]]);
  });

  test("of other containers continue when one ends", async () => {
    const pod = podOf({ readinessProbe: probe("ready") });
    retain(pod, ["c1", "c2"]);
    await clock.advance(0);
    retain(pod, ["c2"]);
    await clock.advance(5000);
    expect(calls.map(({ id }) => id)).toEqual(["c1", "c2", "c2"]);
  });

  test("run in their period, however long the program takes", async () => {
    const end = Promise.withResolvers<undefined>();
    ended = end.promise;
    retain(podOf({ readinessProbe: probe("ready") }));
    await clock.advance(0);
    await clock.advance(3000);
    end.resolve(undefined);
    await clock.advance(0);
    await clock.advance(2000);
    expect(asked).toEqual(["0 ready", "5 ready"]);
  });

  test("report a failure again only after a success", async () => {
    answers.set("ready", 1);
    retain(podOf({ readinessProbe: probe("ready") }));
    await clock.advance(0);
    await clock.advance(5000);
    expect(events).toHaveLength(1);
    answers.set("ready", 0);
    await clock.advance(5000);
    answers.set("ready", 1);
    await clock.advance(5000);
    expect(events).toHaveLength(2);
  });

  test("start over if the same run was reported as not started", () => {
    const status = {
      name: "compute",
      image: "i",
      imageID: "i",
      ready: false,
      started: false,
      restartCount: 0,
      state: {},
      containerID: `containerd://${ID}`,
    };
    retain(podOf({ startupProbe: probe("start") }, { containerStatuses: [status] }));
    expect(health()).toMatchObject({ isStarted: false, isUnhealthy: false });
  });

  test("are ignored if their container ended meanwhile", async () => {
    const end = Promise.withResolvers<undefined>();
    ended = end.promise;
    answers.set("ready", 1);
    const pod = podOf({ readinessProbe: probe("ready") });
    retain(pod);
    await clock.advance(0);
    retain(pod, []);
    end.resolve(undefined);
    await clock.advance(0);
    expect([asked, events, woken]).toEqual([["0 ready"], [], 0]);
  });

  test("do not exist for an unknown container", () => {
    const container = aRun({ id: ID, name: "unknown" });
    probes.retain(UID, [{ pod: podOf({ readinessProbe: probe("r") }), container, podIps: [] }]);
    expect(probes.findHealth(UID).size).toBe(0);
  });
});
