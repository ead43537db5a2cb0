// SPDX-License-Identifier: Apache-2.0
import {
  networkConfigOf,
  type RunStrategy,
  type StateChangeRequest,
  type VirtualMachine,
} from "@patchbay/api";
import { aVm, aVmi } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import { planRestart, planStart, planStop, type RunStatePlan } from "./run-state.ts";

const VERBS = { start: planStart, stop: planStop, restart: planRestart };
type Verb = keyof typeof VERBS;
type Guest = "none" | "alive" | "over";

const NETWORK = networkConfigOf(undefined);
const UID = "vmi-uid";
const STOP: StateChangeRequest = { action: "Stop", uid: UID };
const START: StateChangeRequest = { action: "Start" };

function vmWith(spec: object, requests?: readonly StateChangeRequest[]): VirtualMachine {
  const { template } = aVm().spec;
  const status = requests === undefined ? {} : { status: { stateChangeRequests: [...requests] } };
  return { ...aVm(), spec: { ...spec, template }, ...status };
}

function plan(verb: Verb, vm: VirtualMachine, guest: Guest): RunStatePlan {
  const phase = guest === "alive" ? "Running" : "Succeeded";
  const vmi = aVmi({ status: { phase } });
  const owned = { ...vmi, metadata: { ...vmi.metadata, uid: UID } };
  return VERBS[verb](
    guest === "none" ? { vm, config: NETWORK } : { vm, vmi: owned, config: NETWORK },
  );
}

/** What is written, or the words of the conflict. */
function shown(planned: RunStatePlan): unknown {
  switch (planned.kind) {
    case "patchVm":
      return planned.operations.at(-1);
    case "requestFromController":
      return planned.requests;
    case "deleteVmi":
      return `delete ${planned.uid}`;
    case "shortenGracePeriod":
      return planned.vmiOperations.at(-1);
    case "refused":
      return `${String(planned.refusal.code)} ${planned.refusal.message}`;
  }
}

const ALWAYS = { op: "add", path: "/spec/runStrategy", value: "Always" };
const HALTED = { op: "add", path: "/spec/runStrategy", value: "Halted" };
const RUNNING = "409 VM is already running";
const ONLY_SHORTER = "409 Halted only supports manual stop requests with a shorter graceperiod";
const NOT_RUNNING = "409 VM is not running";

function noManual(strategy: RunStrategy, verb: Verb): string {
  // KubeVirt's spelling.
  const who = verb === "restart" ? `RunStategy ${strategy}` : strategy;
  return `409 ${who} does not support manual ${verb} requests`;
}

/** What start, stop and restart do without a guest, with one that runs, and with one that has shut down. */
const ROWS: readonly (readonly [RunStrategy, Verb, unknown, unknown, unknown])[] = [
  ["Halted", "start", ALWAYS, RUNNING, ALWAYS],
  ["Manual", "start", [START], RUNNING, [STOP, START]],
  ["RerunOnFailure", "start", [START], RUNNING, [STOP, START]],
  ["Always", "start", noManual("Always", "start"), RUNNING, noManual("Always", "start")],
  ["Once", "start", noManual("Once", "start"), RUNNING, noManual("Once", "start")],
  ["Halted", "stop", NOT_RUNNING, ONLY_SHORTER, NOT_RUNNING],
  ["Manual", "stop", NOT_RUNNING, [STOP], NOT_RUNNING],
  ["RerunOnFailure", "stop", NOT_RUNNING, [STOP], NOT_RUNNING],
  ["Always", "stop", HALTED, HALTED, HALTED],
  ["Once", "stop", HALTED, HALTED, HALTED],
  [
    "Halted",
    "restart",
    noManual("Halted", "restart"),
    noManual("Halted", "restart"),
    noManual("Halted", "restart"),
  ],
  ["Manual", "restart", NOT_RUNNING, [STOP, START], [STOP, START]],
  ["RerunOnFailure", "restart", NOT_RUNNING, [STOP, START], [STOP, START]],
  ["Always", "restart", NOT_RUNNING, `delete ${UID}`, `delete ${UID}`],
  [
    "Once",
    "restart",
    noManual("Once", "restart"),
    noManual("Once", "restart"),
    noManual("Once", "restart"),
  ],
];

describe("requests to a VM with strategy", () => {
  test.each(ROWS)("%s: %s", (...[runStrategy, verb, none, alive, over]) => {
    const vm = vmWith({ runStrategy });
    const guests: readonly Guest[] = ["none", "alive", "over"];
    expect(guests.map((guest) => shown(plan(verb, vm, guest)))).toEqual([none, alive, over]);
  });
});

test("a stop cancels only a pending start", () => {
  expect(plan("stop", vmWith({ runStrategy: "Manual" }, [START]), "none")).toEqual({
    kind: "requestFromController",
    requests: [],
    message: "the virtual machine will be stopped",
  });
  const stopping = vmWith({ runStrategy: "Manual" }, [STOP]);
  expect(shown(plan("stop", stopping, "none"))).toBe(NOT_RUNNING);
});

describe("retains the form of running or runStrategy", () => {
  test.each([
    { name: "as running", spec: { running: false }, test: { path: "/spec/running", value: false } },
    {
      name: "as runStrategy",
      spec: { runStrategy: "Halted" },
      test: { path: "/spec/runStrategy", value: "Halted" },
    },
  ])("$name", ({ spec, test: { path, value } }) => {
    const to = path === "/spec/running" ? true : "Always";
    const op = path === "/spec/running" ? "replace" : "add";
    expect(plan("start", vmWith(spec), "none")).toEqual({
      kind: "patchVm",
      operations: [
        { op: "test", path, value },
        { op, path, value: to },
      ],
      message: "the virtual machine will be started",
    });
  });

  test("or tests the resource version if neither is set", () => {
    const vm = { ...vmWith({}), metadata: { ...aVm().metadata, resourceVersion: "7" } };
    const planned = plan("start", vm, "none");
    expect(planned.kind === "patchVm" && planned.operations[0]).toEqual({
      op: "test",
      path: "/metadata/resourceVersion",
      value: "7",
    });
  });
});

describe("a VM that cannot be started", () => {
  const broken = (runStrategy: RunStrategy): VirtualMachine => {
    const vm = aVm();
    const spec = { ...vm.spec.template.spec, domain: { memory: { hugepages: {} } } };
    return { ...vm, spec: { runStrategy, template: { ...vm.spec.template, spec } } };
  };
  const fields = ["devices.disks", "memory.hugepages"].map(
    (field) => `spec.template.spec.domain.${field}`,
  );

  test.each([
    ["start", "Halted", "none"],
    ["start", "Manual", "none"],
    ["restart", "Always", "alive"],
    ["restart", "Manual", "alive"],
  ] as const)("rejects a %s with every field, strategy %s, guest: %s", (verb, strategy, guest) => {
    expect(plan(verb, broken(strategy), guest)).toMatchObject({
      kind: "refused",
      refusal: {
        code: 422,
        causes: fields.map((field) => ({ reason: "FieldValueNotSupported", field })),
      },
    });
  });

  test("is first reported as not running, and may be stopped", () => {
    expect(shown(plan("restart", broken("Always"), "none"))).toBe(NOT_RUNNING);
    expect(shown(plan("stop", broken("Always"), "alive"))).toEqual(HALTED);
  });
});
