// SPDX-License-Identifier: Apache-2.0
// The start, stop and restart subresources. Source: KubeVirt pkg/virt-api/rest/lifecycle.go; api/core/v1 StartOptions,
// StopOptions, RestartOptions.
import {
  isVmiFinal,
  runStrategyOf,
  type NetworkConfig,
  type StateChangeRequest,
  type VirtualMachine,
  type VirtualMachineInstance,
} from "@patchbay/api";
import type { JsonObject, JsonPatchOperation } from "@patchbay/api/json";
import type { Cause } from "@patchbay/api/kubernetes";
import type { FieldProblem } from "@patchbay/api/validate";
import { readMembers, toRefusal, type Parsed, type Refusal } from "./refusal.ts";
import type { Expansion } from "../instancetype/expand.ts";
import { versionTest } from "../status/patch.ts";
import { formatProblems, vmStartProblems } from "../vm/start-problems.ts";
import { vmiOf } from "../vm/vm.ts";

export interface RunStateOptions {
  readonly paused?: boolean;
  /** Seconds for the guest to shut down, 0 or more; unset for the spec's value. */
  readonly graceSeconds?: number;
}

function invalidValue(field: string, message: string): Cause {
  return { reason: "FieldValueInvalid", field, message };
}

function refused(...causes: readonly Cause[]): Parsed<never> {
  return { ok: false, refusal: toRefusal(400, causes) };
}

function parseBody(
  body: unknown,
  read: (options: JsonObject) => Parsed<RunStateOptions>,
): Parsed<RunStateOptions> {
  const members = readMembers(body);
  return members.ok ? read(members.value) : members;
}

function parseSeconds(
  body: JsonObject,
  field: string,
  findProblem: (seconds: number) => string | undefined,
): Parsed<RunStateOptions> {
  const value = body[field];
  if (value === undefined || value === null) return { ok: true, value: {} };
  if (typeof value !== "number" || !Number.isSafeInteger(value)) {
    return refused(invalidValue(field, `${field} must be an integer`));
  }
  const problem = findProblem(value);
  return problem === undefined
    ? { ok: true, value: { graceSeconds: value } }
    : refused(invalidValue(field, problem));
}

export function parseStartBody(body: unknown): Parsed<RunStateOptions> {
  return parseBody(body, ({ paused }) => {
    if (paused === undefined || paused === null) return { ok: true, value: {} };
    return typeof paused === "boolean"
      ? { ok: true, value: { paused } }
      : refused(invalidValue("paused", "paused must be true or false"));
  });
}

export function parseStopBody(body: unknown): Parsed<RunStateOptions> {
  return parseBody(body, (options) =>
    parseSeconds(options, "gracePeriod", (seconds) =>
      seconds < 0 ? "gracePeriod has to be greater or equal to 0" : undefined,
    ),
  );
}

/** KubeVirt only accepts 0. */
export function parseRestartBody(body: unknown): Parsed<RunStateOptions> {
  return parseBody(body, (options) =>
    parseSeconds(options, "gracePeriodSeconds", (seconds) => {
      if (seconds < 0) return "gracePeriod has to be greater or equal to 0";
      return seconds > 0 ? "For force restart, only gracePeriod=0 is supported for now" : undefined;
    }),
  );
}

export interface RunStateFacts {
  readonly vm: VirtualMachine;
  readonly vmi?: VirtualMachineInstance;
  readonly config: NetworkConfig;
  /** The VM with its instancetype and preference; unset if it has neither. */
  readonly expansion?: Expansion;
  readonly macsInUse?: readonly FieldProblem[];
  readonly options?: RunStateOptions;
}

/** Written first: the VMI's grace period. */
interface WithGrace {
  readonly vmiOperations?: readonly JsonPatchOperation[];
}

/** What to write, or why nothing is written. The message is returned to the client and logged. */
export type RunStatePlan =
  /** The spec decides whether the VM runs. Requests are written first. */
  | (WithGrace & {
      readonly kind: "patchVm";
      readonly operations: readonly JsonPatchOperation[];
      readonly requests?: readonly StateChangeRequest[];
      readonly message: string;
    })
  /** The run strategy leaves the decision to `status.stateChangeRequests`. */
  | (WithGrace & {
      readonly kind: "askController";
      readonly requests: readonly StateChangeRequest[];
      readonly endsPause?: true;
      readonly message: string;
    })
  /** The VM creates a new VMI, because its run strategy keeps it running. */
  | (WithGrace & {
      readonly kind: "deleteVmi";
      readonly uid: string;
      readonly endsPause?: true;
      readonly message: string;
    })
  /** The VMI is already being deleted and gets a shorter grace period. */
  | (Required<WithGrace> & { readonly kind: "hurryVmi"; readonly message: string })
  | { readonly kind: "refused"; readonly refusal: Refusal };

function hasGuest({ vmi }: RunStateFacts): boolean {
  return vmi !== undefined && !isVmiFinal(vmi);
}

function conflict(message: string): RunStatePlan {
  return { kind: "refused", refusal: toRefusal(409, [], message) };
}

/** A VMI without a phase is not known to run. Source: KubeVirt. */
function isStarted(facts: RunStateFacts): boolean {
  const phase = facts.vmi?.status?.phase ?? "";
  return hasGuest(facts) && phase !== "" && phase !== "Unknown";
}

function noManualStart({ vm }: RunStateFacts): RunStatePlan {
  return conflict(`${runStrategyOf(vm)} does not support manual start requests`);
}

/** Same message as KubeVirt, including its misspelling, because clients match it. */
function noManualRestart({ vm }: RunStateFacts): RunStatePlan {
  return conflict(`RunStategy ${runStrategyOf(vm)} does not support manual restart requests`);
}

/** A request skips the backoff after failed starts by clearing `status.startFailure`. Source: KubeVirt. */
function backoffReset({ vm }: RunStateFacts): { readonly endsPause?: true } {
  return vm.status?.startFailure === undefined ? {} : { endsPause: true };
}

function requestFromController(
  facts: RunStateFacts,
  requests: readonly StateChangeRequest[],
  message: string,
): Extract<RunStatePlan, { kind: "askController" }> {
  return { kind: "askController", requests, ...backoffReset(facts), message };
}

/** Patches whichever of `running` and `runStrategy` the VM uses. Fails on concurrent edits. */
function runningPatch(vm: VirtualMachine, running: boolean): readonly JsonPatchOperation[] {
  const { spec } = vm;
  if (spec.running !== undefined) {
    return [
      { op: "test", path: "/spec/running", value: spec.running },
      { op: "replace", path: "/spec/running", value: running },
    ];
  }
  const path = "/spec/runStrategy";
  return [
    spec.runStrategy === undefined
      ? versionTest(vm)
      : { op: "test", path, value: spec.runStrategy },
    { op: "add", path, value: running ? "Always" : "Halted" },
  ];
}

/** Refuses the plan if the VM could not start, because a restart would only end the guest. */
function ifStartable(
  { vm, expansion, config }: RunStateFacts,
  plan: RunStatePlan,
  macsInUse: readonly FieldProblem[] = [],
): RunStatePlan {
  const wanted = expansion?.vm ?? vm;
  const problems = [
    ...(expansion?.causes ?? []).map(({ field, message }) => ({ field, message })),
    ...vmStartProblems(wanted, vmiOf(wanted, config.bindings), config),
    ...macsInUse,
  ];
  if (plan.kind === "refused" || problems.length === 0) return plan;
  const causes = problems.map((problem) => ({
    reason: "FieldValueNotSupported" as const,
    ...problem,
  }));
  const message = `the VM cannot be started: ${formatProblems(problems)}`;
  return { kind: "refused", refusal: toRefusal(422, causes, message) };
}

/** Source: KubeVirt StartRequestDataPausedKey. */
function startRequest({ options }: RunStateFacts): StateChangeRequest {
  return options?.paused === true
    ? { action: "Start", data: { paused: "true" } }
    : { action: "Start" };
}

/** A VMI whose guest has ended is stopped first. */
function startRequests(facts: RunStateFacts): readonly StateChangeRequest[] {
  const uid = facts.vmi?.metadata.uid;
  const start = startRequest(facts);
  return uid === undefined || hasGuest(facts) ? [start] : [{ action: "Stop", uid }, start];
}

function isRerun({ vm, vmi }: RunStateFacts): boolean {
  return runStrategyOf(vm) === "RerunOnFailure" && vmi?.status?.phase === "Failed";
}

/** How the guest starts after Halted. Outdated requests are dropped. */
function requestsOfHalted(facts: RunStateFacts): Pick<WithRequests, "requests"> {
  if (facts.options?.paused === true) return { requests: [startRequest(facts)] };
  return (facts.vm.status?.stateChangeRequests ?? []).length === 0 ? {} : { requests: [] };
}

type WithRequests = Extract<RunStatePlan, { kind: "patchVm" }>;

function graceOperations({ vmi, options }: RunStateFacts): WithGrace {
  const value = options?.graceSeconds;
  if (value === undefined || vmi === undefined || isVmiFinal(vmi)) return {};
  return {
    vmiOperations: [
      { op: "test", path: "/metadata/uid", value: vmi.metadata.uid },
      { op: "add", path: "/spec/terminationGracePeriodSeconds", value },
    ],
  };
}

/** Conflict if a guest runs or the run strategy starts it. Refused if it cannot start. */
export function planStart(facts: RunStateFacts): RunStatePlan {
  const message = "the virtual machine will be started";
  if (isStarted(facts)) return conflict("VM is already running");
  if (isRerun(facts))
    return conflict("RerunOnFailure does not support starting VM from failed state");
  switch (runStrategyOf(facts.vm)) {
    case "Halted":
      return ifStartable(
        facts,
        {
          kind: "patchVm",
          operations: runningPatch(facts.vm, true),
          ...requestsOfHalted(facts),
          message,
        },
        facts.macsInUse,
      );
    case "Manual":
    case "RerunOnFailure":
      return ifStartable(
        facts,
        requestFromController(facts, startRequests(facts), message),
        facts.macsInUse,
      );
    case "Always":
    case "Once":
      return noManualStart(facts);
  }
}

const STOP_MESSAGE = "the virtual machine will be stopped";
const NOT_RUNNING = conflict("VM is not running");

function isStartPending({ vm }: RunStateFacts): boolean {
  return vm.status?.stateChangeRequests?.some(({ action }) => action === "Start") === true;
}

function planStopRequest(facts: RunStateFacts): RunStatePlan {
  const uid = facts.vmi?.metadata.uid;
  const isAlive = hasGuest(facts) && uid !== undefined;
  if (!isAlive && !isStartPending(facts)) return NOT_RUNNING;
  const requests = isAlive ? [{ action: "Stop", uid } as const] : [];
  return { ...requestFromController(facts, requests, STOP_MESSAGE), ...graceOperations(facts) };
}

/** KubeVirt only accepts another stop if it shortens the grace period. */
function planShorterStop(facts: RunStateFacts): RunStatePlan {
  if (!hasGuest(facts)) return NOT_RUNNING;
  const { vmiOperations } = graceOperations(facts);
  const now = facts.vmi?.spec.terminationGracePeriodSeconds ?? Infinity;
  const isShorter = (facts.options?.graceSeconds ?? Infinity) < now;
  return vmiOperations === undefined || !isShorter
    ? conflict("Halted only supports manual stop requests with a shorter graceperiod")
    : { kind: "hurryVmi", vmiOperations, message: STOP_MESSAGE };
}

/** Also cancels a pending start. Conflict if nothing runs or the guest is already stopping. */
export function planStop(facts: RunStateFacts): RunStatePlan {
  switch (runStrategyOf(facts.vm)) {
    case "Halted":
      return planShorterStop(facts);
    case "Manual":
    case "RerunOnFailure":
      return planStopRequest(facts);
    case "Always":
    case "Once":
      return {
        kind: "patchVm",
        operations: runningPatch(facts.vm, false),
        message: STOP_MESSAGE,
        ...graceOperations(facts),
      };
  }
}

/** Conflict without a VMI. Refused if the guest could not start again. */
export function planRestart(facts: RunStateFacts): RunStatePlan {
  const message = "the virtual machine will be restarted";
  const strategy = runStrategyOf(facts.vm);
  const uid = facts.vmi?.metadata.uid;
  if (strategy === "Halted" || strategy === "Once") return noManualRestart(facts);
  if (uid === undefined) return NOT_RUNNING;
  const grace = graceOperations(facts);
  if (strategy === "Always") {
    const plan = { kind: "deleteVmi", uid, message, ...backoffReset(facts), ...grace } as const;
    return ifStartable(facts, plan, facts.macsInUse);
  }
  const requests = [{ action: "Stop", uid }, { action: "Start" }] as const;
  const plan = { ...requestFromController(facts, requests, message), ...grace };
  return ifStartable(facts, plan, facts.macsInUse);
}
