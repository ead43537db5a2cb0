// SPDX-License-Identifier: Apache-2.0
// What a VM shows and does next, and what each request is answered: by what its specification says of running, and by
// what has become of its guest. Source: KubeVirt pkg/virt-api/rest/lifecycle.go, pkg/virt-controller/watch/vm.
import {
  networkConfigOf,
  runStrategyOf,
  type RunStrategy,
  type StateChangeRequest,
  type VirtualMachine,
  type VirtualMachineInstance,
  type VmiStatus,
  type VmStatus,
} from "@patchbay/api";
import type { JsonPatchOperation } from "@patchbay/api/json";
import { aVm, aVmi } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import { buildVmStatus } from "../status/vm.ts";
import { planVm } from "../vm/vm.ts";
import {
  planRestart,
  planStart,
  planStop,
  type RunStateFacts,
  type RunStatePlan,
} from "./run-state.ts";

const START = { action: "Start" } as const;
const NOW = "2026-01-01T01:00:00.000Z";
const SOON = "2026-01-01T01:01:00.000Z";
const CONFIG = networkConfigOf(undefined);

/** How the specification says whether the VM runs; a strategy that starts once has started once. */
const SPECS = {
  Always: { runStrategy: "Always" },
  "running:true": { running: true },
  RerunOnFailure: { runStrategy: "RerunOnFailure" },
  Manual: { runStrategy: "Manual" },
  Once: { runStrategy: "Once" },
  Halted: { runStrategy: "Halted" },
  "running:false": { running: false },
} as const satisfies Record<string, Partial<VirtualMachine["spec"]>>;

type Spec = keyof typeof SPECS;

const PAUSED = [{ type: "Paused", status: "True" as const }];
/** Long before it ended. */
const RAN = [{ phase: "Running", phaseTransitionTimestamp: "2026-01-01T00:00:00.000Z" } as const];

/** What there is of a guest; nothing, also while the VM waits after starts that failed. */
const STATES: Readonly<Record<string, VmiStatus | undefined>> = {
  none: undefined,
  pausing: undefined,
  new: {},
  Scheduling: { phase: "Scheduling" },
  Running: { phase: "Running" },
  Paused: { phase: "Running", conditions: PAUSED },
  Stopping: { phase: "Running" },
  Lost: { phase: "Unknown" },
  Succeeded: { phase: "Succeeded", phaseTransitionTimestamps: RAN },
  Failed: { phase: "Failed", phaseTransitionTimestamps: RAN },
  NeverRan: { phase: "Failed" },
};

/** What a request is answered, where it is refused. */
const REFUSALS: Readonly<Record<string, string>> = {
  runs: "VM is already running",
  "runs-not": "VM is not running",
  "no-start": "STRATEGY does not support manual start requests",
  "no-restart": "RunStategy STRATEGY does not support manual restart requests",
  rerun: "RerunOnFailure does not support starting VM from failed state",
  "only-shorter": "Halted only supports manual stop requests with a shorter graceperiod",
};

const REQUESTS: Readonly<Record<string, (facts: RunStateFacts) => RunStatePlan>> = {
  start: planStart,
  paused: (facts) => planStart({ ...facts, options: { paused: true } }),
  stop: planStop,
  "stop-0": (facts) => planStop({ ...facts, options: { graceSeconds: 0 } }),
  restart: planRestart,
  "restart-0": (facts) => planRestart({ ...facts, options: { graceSeconds: 0 } }),
};

/**
 * A row says what the VM shows, what virt-controller does next or notes as requests, and what each request is answered:
 * a refusal, how the specification is changed (`=`), what is asked of virt-controller, or what becomes of the VMI. After `!`
 * the guest has no time to shut down, `at-once` ends a pause, and a comma alone takes a request back.
 */
const TABLE: Readonly<Record<Spec, string>> = {
  Always: `
    state      printed          next      start    start-paused stop    stop-0   restart  restart-0
    none       Starting         createVmi no-start no-start     =Halted =Halted  runs-not runs-not
    pausing    CrashLoopBackOff -         no-start no-start     =Halted =Halted  runs-not runs-not
    new        Starting         -         no-start no-start     =Halted =Halted! delete   delete!
    Scheduling Starting         -         runs     runs         =Halted =Halted! delete   delete!
    Running    Running          -         runs     runs         =Halted =Halted! delete   delete!
    Paused     Paused           -         runs     runs         =Halted =Halted! delete   delete!
    Stopping   Stopping         -         runs     runs         =Halted =Halted! delete   delete!
    Lost       Unknown          -         no-start no-start     =Halted =Halted! delete   delete!
    Succeeded  Stopped          deleteVmi no-start no-start     =Halted =Halted  delete   delete
    Failed     Stopped          deleteVmi no-start no-start     =Halted =Halted  delete   delete
    NeverRan   CrashLoopBackOff deleteVmi no-start no-start     =Halted =Halted  delete   delete
  `,
  "running:true": `
    state      printed          next      start    start-paused stop   stop-0  restart  restart-0
    none       Starting         createVmi no-start no-start     =false =false  runs-not runs-not
    pausing    CrashLoopBackOff -         no-start no-start     =false =false  runs-not runs-not
    new        Starting         -         no-start no-start     =false =false! delete   delete!
    Scheduling Starting         -         runs     runs         =false =false! delete   delete!
    Running    Running          -         runs     runs         =false =false! delete   delete!
    Paused     Paused           -         runs     runs         =false =false! delete   delete!
    Stopping   Stopping         -         runs     runs         =false =false! delete   delete!
    Lost       Unknown          -         no-start no-start     =false =false! delete   delete!
    Succeeded  Stopped          deleteVmi no-start no-start     =false =false  delete   delete
    Failed     Stopped          deleteVmi no-start no-start     =false =false  delete   delete
    NeverRan   CrashLoopBackOff deleteVmi no-start no-start     =false =false  delete   delete
  `,
  RerunOnFailure: `
    state      printed          next       start         start-paused         stop     stop-0   restart    restart-0
    none       Stopped          -          Start         Start-paused         runs-not runs-not runs-not   runs-not
    pausing    CrashLoopBackOff Start      Start,at-once Start-paused,at-once ,at-once ,at-once runs-not   runs-not
    new        Starting         -          Start         Start-paused         Stop     Stop!    Stop+Start Stop+Start!
    Scheduling Starting         -          runs          runs                 Stop     Stop!    Stop+Start Stop+Start!
    Running    Running          -          runs          runs                 Stop     Stop!    Stop+Start Stop+Start!
    Paused     Paused           -          runs          runs                 Stop     Stop!    Stop+Start Stop+Start!
    Stopping   Stopping         -          runs          runs                 Stop     Stop!    Stop+Start Stop+Start!
    Lost       Unknown          -          Start         Start-paused         Stop     Stop!    Stop+Start Stop+Start!
    Succeeded  Stopped          deleteVmi  Stop+Start    Stop+Start-paused    runs-not runs-not Stop+Start Stop+Start
    Failed     Stopped          Stop+Start rerun         rerun                runs-not runs-not Stop+Start Stop+Start
    NeverRan   CrashLoopBackOff Stop+Start rerun         rerun                runs-not runs-not Stop+Start Stop+Start
  `,
  Manual: `
    state      printed  next start         start-paused         stop     stop-0   restart    restart-0
    none       Stopped  -    Start         Start-paused         runs-not runs-not runs-not   runs-not
    pausing    Stopped  -    Start,at-once Start-paused,at-once runs-not runs-not runs-not   runs-not
    new        Starting -    Start         Start-paused         Stop     Stop!    Stop+Start Stop+Start!
    Scheduling Starting -    runs          runs                 Stop     Stop!    Stop+Start Stop+Start!
    Running    Running  -    runs          runs                 Stop     Stop!    Stop+Start Stop+Start!
    Paused     Paused   -    runs          runs                 Stop     Stop!    Stop+Start Stop+Start!
    Stopping   Stopping -    runs          runs                 Stop     Stop!    Stop+Start Stop+Start!
    Lost       Unknown  -    Start         Start-paused         Stop     Stop!    Stop+Start Stop+Start!
    Succeeded  Stopped  -    Stop+Start    Stop+Start-paused    runs-not runs-not Stop+Start Stop+Start
    Failed     Stopped  -    Stop+Start    Stop+Start-paused    runs-not runs-not Stop+Start Stop+Start
    NeverRan   Stopped  -    Stop+Start    Stop+Start-paused    runs-not runs-not Stop+Start Stop+Start
  `,
  Once: `
    state      printed  next start    start-paused stop    stop-0   restart    restart-0
    none       Stopped  -    no-start no-start     =Halted =Halted  no-restart no-restart
    pausing    Stopped  -    no-start no-start     =Halted =Halted  no-restart no-restart
    new        Starting -    no-start no-start     =Halted =Halted! no-restart no-restart
    Scheduling Starting -    runs     runs         =Halted =Halted! no-restart no-restart
    Running    Running  -    runs     runs         =Halted =Halted! no-restart no-restart
    Paused     Paused   -    runs     runs         =Halted =Halted! no-restart no-restart
    Stopping   Stopping -    runs     runs         =Halted =Halted! no-restart no-restart
    Lost       Unknown  -    no-start no-start     =Halted =Halted! no-restart no-restart
    Succeeded  Stopped  -    no-start no-start     =Halted =Halted  no-restart no-restart
    Failed     Stopped  -    no-start no-start     =Halted =Halted  no-restart no-restart
    NeverRan   Stopped  -    no-start no-start     =Halted =Halted  no-restart no-restart
  `,
  Halted: `
    state      printed  next      start   start-paused         stop         stop-0   restart    restart-0
    none       Stopped  -         =Always Start-paused,=Always runs-not     runs-not no-restart no-restart
    pausing    Stopped  -         =Always Start-paused,=Always runs-not     runs-not no-restart no-restart
    new        Stopping deleteVmi =Always Start-paused,=Always only-shorter hurry!   no-restart no-restart
    Scheduling Stopping deleteVmi runs    runs                 only-shorter hurry!   no-restart no-restart
    Running    Stopping deleteVmi runs    runs                 only-shorter hurry!   no-restart no-restart
    Paused     Stopping deleteVmi runs    runs                 only-shorter hurry!   no-restart no-restart
    Stopping   Stopping -         runs    runs                 only-shorter hurry!   no-restart no-restart
    Lost       Stopping deleteVmi =Always Start-paused,=Always only-shorter hurry!   no-restart no-restart
    Succeeded  Stopped  deleteVmi =Always Start-paused,=Always runs-not     runs-not no-restart no-restart
    Failed     Stopped  deleteVmi =Always Start-paused,=Always runs-not     runs-not no-restart no-restart
    NeverRan   Stopped  deleteVmi =Always Start-paused,=Always runs-not     runs-not no-restart no-restart
  `,
  "running:false": `
    state      printed  next      start start-paused       stop         stop-0   restart    restart-0
    none       Stopped  -         =true Start-paused,=true runs-not     runs-not no-restart no-restart
    pausing    Stopped  -         =true Start-paused,=true runs-not     runs-not no-restart no-restart
    new        Stopping deleteVmi =true Start-paused,=true only-shorter hurry!   no-restart no-restart
    Scheduling Stopping deleteVmi runs  runs               only-shorter hurry!   no-restart no-restart
    Running    Stopping deleteVmi runs  runs               only-shorter hurry!   no-restart no-restart
    Paused     Stopping deleteVmi runs  runs               only-shorter hurry!   no-restart no-restart
    Stopping   Stopping -         runs  runs               only-shorter hurry!   no-restart no-restart
    Lost       Stopping deleteVmi =true Start-paused,=true only-shorter hurry!   no-restart no-restart
    Succeeded  Stopped  deleteVmi =true Start-paused,=true runs-not     runs-not no-restart no-restart
    Failed     Stopped  deleteVmi =true Start-paused,=true runs-not     runs-not no-restart no-restart
    NeverRan   Stopped  deleteVmi =true Start-paused,=true runs-not     runs-not no-restart no-restart
  `,
};

function vmThatIs(spec: Spec, state: string): VirtualMachine {
  const { template } = aVm().spec;
  const failed = {
    consecutiveFailCount: 2,
    lastFailedVMIUID: "earlier",
    retryAfterTimestamp: SOON,
  };
  const name = runStrategyOf({ ...aVm(), spec: { ...SPECS[spec], template } });
  const status: VmStatus = {
    runStrategy: name,
    ...(state === "pausing" && { startFailure: failed }),
    ...(state === "pausing" && name === "RerunOnFailure" && { stateChangeRequests: [START] }),
  };
  return { ...aVm(), spec: { ...SPECS[spec], template }, status };
}

function vmiThatIs(state: string): VirtualMachineInstance | undefined {
  const status = STATES[state];
  if (status === undefined) return undefined;
  const vmi = aVmi({ ownedByVm: true, status });
  const deleting = state === "Stopping" ? { deletionTimestamp: NOW } : {};
  return { ...vmi, metadata: { ...vmi.metadata, ...deleting } };
}

function printRequests(requests: readonly StateChangeRequest[] = []): string {
  return requests
    .map(({ action, data }) => (data === undefined ? action : `${action}-paused`))
    .join("+");
}

function printRefusal(message: string, strategy: string): string {
  const found = Object.entries(REFUSALS).find(
    ([, text]) => text.replace("STRATEGY", strategy) === message,
  );
  return found?.[0] ?? message;
}

function printLast(operations: readonly JsonPatchOperation[]): string {
  const last = operations.at(-1);
  return last?.op === "remove" ? "" : String(last?.value);
}

/** A plan in a word; what the guest has less time for has a `!`. */
function printPlan(plan: RunStatePlan, strategy: string): string {
  if (plan.kind === "refused") {
    return plan.refusal.code === 409 ? printRefusal(plan.refusal.message, strategy) : "else";
  }
  const hurried = plan.vmiOperations === undefined ? "" : "!";
  switch (plan.kind) {
    case "patchVm": {
      const before = plan.requests === undefined ? "" : `${printRequests(plan.requests)},`;
      return `${before}=${printLast(plan.operations)}${hurried}`;
    }
    case "requestFromController":
      return `${printRequests(plan.requests)}${plan.resetsBackoff === true ? ",at-once" : ""}${hurried}`;
    case "deleteVmi":
      return `delete${hurried}`;
    case "shortenGracePeriod":
      return `hurry${hurried}`;
  }
}

/** What virt-controller makes of them: the word for people, and its next step, or the requests that it notes. */
function summarize(
  vm: VirtualMachine,
  vmi: VirtualMachineInstance | undefined,
): { readonly printed: string; readonly next: string } {
  const waits = {
    startProblems: [],
    hasNameConflict: false,
    waitsForBinding: false,
    isStaged: false,
  };
  const situation = { ...waits, vm, vmi, bindings: {} };
  const [step] = planVm({ ...situation, now: NOW, missingDataVolumes: [] });
  const status = buildVmStatus({ ...situation, failures: [] }, NOW);
  const requested = printRequests(status.stateChangeRequests);
  const next = step?.kind ?? (requested === "" ? "-" : requested);
  return { printed: status.printableStatus ?? "", next };
}

/** A row of the table as it is. */
function rowOf(spec: Spec, state: string): string {
  const [vm, vmi] = [vmThatIs(spec, state), vmiThatIs(state)];
  const { printed, next } = summarize(vm, vmi);
  const facts = { vm, config: CONFIG, ...(vmi !== undefined && { vmi }) };
  const strategy = String(vm.status?.runStrategy);
  const responses = Object.values(REQUESTS).map((plan) => printPlan(plan(facts), strategy));
  return [state, printed, next, ...responses].join(" ");
}

function rowsOf(table: string): readonly string[] {
  const [, ...rows] = table.trim().split("\n");
  return rows.map((row) => row.trim().replace(/ +/g, " "));
}

describe.each(Object.keys(SPECS) as readonly Spec[])("%s", (spec) => {
  const rows = rowsOf(TABLE[spec]);

  test("has a row for each state", () => {
    expect(rows.map((row) => row.split(" ")[0])).toEqual(Object.keys(STATES));
  });

  test.each(rows)("%s", (row) => {
    const [state = ""] = row.split(" ");
    expect(rowOf(spec, state)).toBe(row);
  });
});

describe("an edited run strategy", () => {
  const STRATEGIES = ["Always", "RerunOnFailure", "Manual", "Once", "Halted"] as const;
  /** What is done next by the strategy that is new, whichever was before it. */
  const NEXT: Readonly<Record<RunStrategy, Readonly<Record<string, string>>>> = {
    Always: {
      none: "createVmi",
      Running: "-",
      Stopping: "-",
      Succeeded: "deleteVmi",
      Failed: "deleteVmi",
    },
    RerunOnFailure: {
      none: "createVmi",
      Running: "-",
      Stopping: "-",
      Succeeded: "deleteVmi",
      Failed: "Stop+Start",
    },
    Manual: { none: "-", Running: "-", Stopping: "-", Succeeded: "-", Failed: "-" },
    Once: { none: "createVmi", Running: "-", Stopping: "-", Succeeded: "-", Failed: "-" },
    Halted: {
      none: "-",
      Running: "deleteVmi",
      Stopping: "-",
      Succeeded: "deleteVmi",
      Failed: "deleteVmi",
    },
  };

  const EDITS = STRATEGIES.flatMap((to) =>
    STRATEGIES.filter((from) => from !== to).flatMap((from) =>
      Object.entries(NEXT[to]).map(([state, next]) => ({ from, to, state, next })),
    ),
  );

  test.each(EDITS)("from $from to $to, $state: $next", ({ from, to, state, next }) => {
    const vm = vmThatIs(to, state);
    const edited = { ...vm, status: { ...vm.status, runStrategy: from } };
    expect(summarize(edited, vmiThatIs(state)).next).toBe(next);
  });
});

describe("a MAC that another running VM uses", () => {
  const macsInUse = [{ field: "spec.template.spec", message: "MAC address is in use" }];
  test.each([
    { request: "a start", plan: planStart, strategy: "Halted", phase: undefined },
    { request: "a start on request", plan: planStart, strategy: "Manual", phase: undefined },
    { request: "a restart", plan: planRestart, strategy: "Always", phase: "Running" },
    { request: "a restart on request", plan: planRestart, strategy: "Manual", phase: "Running" },
  ] as const)("blocks $request with strategy $strategy", ({ plan, strategy, phase }) => {
    const stored = aVm({});
    const vm = { ...stored, spec: { ...stored.spec, runStrategy: strategy } };
    const vmi = phase === undefined ? {} : { vmi: aVmi({ ownedByVm: true, status: { phase } }) };
    const refused = plan({ vm, ...vmi, config: CONFIG, macsInUse });
    expect(refused).toMatchObject({ kind: "refused", refusal: { code: 422 } });
    expect(plan({ vm, ...vmi, config: CONFIG })).not.toMatchObject({ kind: "refused" });
  });
});
