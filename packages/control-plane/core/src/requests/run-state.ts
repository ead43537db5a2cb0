// SPDX-License-Identifier: Apache-2.0
// Plans for the start, stop and restart subresources. Source: KubeVirt pkg/virt-api/rest/lifecycle.go.
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
  /** Grace period for the shutdown, in seconds, 0 or more. If unset, the grace period in the spec applies. */
  readonly graceSeconds?: number;
}

function refuseValue(field: string, message: string): Cause {
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
    return refused(refuseValue(field, `${field} must be an integer`));
  }
  const problem = findProblem(value);
  return problem === undefined
    ? { ok: true, value: { graceSeconds: value } }
    : refused(refuseValue(field, problem));
}

export function parseStartBody(body: unknown): Parsed<RunStateOptions> {
  return parseBody(body, ({ paused }) => {
    if (paused === undefined || paused === null) return { ok: true, value: {} };
    return typeof paused === "boolean"
      ? { ok: true, value: { paused } }
      : refused(refuseValue("paused", "paused must be true or false"));
  });
}

export function parseStopBody(body: unknown): Parsed<RunStateOptions> {
  return parseBody(body, (options) =>
    parseSeconds(options, "gracePeriod", (seconds) =>
      seconds < 0 ? "gracePeriod has to be greater or equal to 0" : undefined,
    ),
  );
}

/** Parses the body of a restart. The only accepted grace period is 0, as in KubeVirt. */
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
  /** VM with its instancetype and preference applied. Unset if the VM has neither. */
  readonly expansion?: Expansion;
  readonly macsInUse?: readonly FieldProblem[];
  readonly options?: RunStateOptions;
}

/** Patch of the VMI's grace period. virt-api applies it before all other writes, so that the stop uses the new period. */
interface WithGracePeriod {
  readonly vmiOperations?: readonly JsonPatchOperation[];
}

/** Planned writes for a request, or its refusal. After the writes, virt-api returns `message` and, except in a dry run, logs it. */
export type RunStatePlan =
  /** Patches the VM's spec, after `requests` are written to its status. */
  | (WithGracePeriod & {
      readonly kind: "patchVm";
      readonly operations: readonly JsonPatchOperation[];
      readonly requests?: readonly StateChangeRequest[];
      readonly message: string;
    })
  /** Writes `status.stateChangeRequests`, because the VM's run strategy acts only on these requests. */
  | (WithGracePeriod & {
      readonly kind: "requestFromController";
      readonly requests: readonly StateChangeRequest[];
      readonly resetsBackoff?: true;
      readonly message: string;
    })
  /** Deletes the VMI. virt-controller creates a new VMI, because the run strategy requires a running VM. */
  | (WithGracePeriod & {
      readonly kind: "deleteVmi";
      readonly uid: string;
      readonly resetsBackoff?: true;
      readonly message: string;
    })
  | (Required<WithGracePeriod> & { readonly kind: "shortenGracePeriod"; readonly message: string })
  | { readonly kind: "refused"; readonly refusal: Refusal };

function hasGuest({ vmi }: RunStateFacts): boolean {
  return vmi !== undefined && !isVmiFinal(vmi);
}

function conflict(message: string): RunStatePlan {
  return { kind: "refused", refusal: toRefusal(409, [], message) };
}

/** Returns whether the guest is starting or running. False if the VMI has no phase or its phase is `Unknown`. Source: KubeVirt. */
function isStarted(facts: RunStateFacts): boolean {
  const phase = facts.vmi?.status?.phase ?? "";
  return hasGuest(facts) && phase !== "" && phase !== "Unknown";
}

function refuseManualStart({ vm }: RunStateFacts): RunStatePlan {
  return conflict(`${runStrategyOf(vm)} does not support manual start requests`);
}

/** Refuses with KubeVirt's message, including its misspelling, because clients match the message. */
function refuseManualRestart({ vm }: RunStateFacts): RunStatePlan {
  return conflict(`RunStategy ${runStrategyOf(vm)} does not support manual restart requests`);
}

/** Resets `status.startFailure`, which delays starts after failures. Source: KubeVirt. */
function buildBackoffReset({ vm }: RunStateFacts): { readonly resetsBackoff?: true } {
  return vm.status?.startFailure === undefined ? {} : { resetsBackoff: true };
}

function requestFromController(
  facts: RunStateFacts,
  requests: readonly StateChangeRequest[],
  message: string,
): Extract<RunStatePlan, { kind: "requestFromController" }> {
  return { kind: "requestFromController", requests, ...buildBackoffReset(facts), message };
}

/** Builds a patch of the field that the VM uses, `running` or `runStrategy`. The patch fails after a concurrent edit. */
function buildRunningPatch(vm: VirtualMachine, running: boolean): readonly JsonPatchOperation[] {
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

function refuseUnlessStartable(
  { vm, expansion, config }: RunStateFacts,
  plan: RunStatePlan,
  macsInUse: readonly FieldProblem[] = [],
): RunStatePlan {
  const startedVm = expansion?.vm ?? vm;
  const problems = [
    ...(expansion?.causes ?? []).map(({ field, message }) => ({ field, message })),
    ...vmStartProblems(startedVm, vmiOf(startedVm, config.bindings), config),
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

/** Builds the request to start the VM. Source: KubeVirt StartRequestDataPausedKey. */
function buildStartRequest({ options }: RunStateFacts): StateChangeRequest {
  return options?.paused === true
    ? { action: "Start", data: { paused: "true" } }
    : { action: "Start" };
}

/** Returns the requests for a start. If the VM still has the VMI of an ended guest, a stop request comes first to remove that VMI. */
function buildStartRequests(facts: RunStateFacts): readonly StateChangeRequest[] {
  const uid = facts.vmi?.metadata.uid;
  const startRequest = buildStartRequest(facts);
  return uid === undefined || hasGuest(facts)
    ? [startRequest]
    : [{ action: "Stop", uid }, startRequest];
}

function isRerun({ vm, vmi }: RunStateFacts): boolean {
  return runStrategyOf(vm) === "RerunOnFailure" && vmi?.status?.phase === "Failed";
}

/** Returns the requests to store for a halted VM. An empty list removes outdated requests; undefined changes nothing. */
function buildHaltedRequests(facts: RunStateFacts): Pick<PatchVmPlan, "requests"> {
  if (facts.options?.paused === true) return { requests: [buildStartRequest(facts)] };
  return (facts.vm.status?.stateChangeRequests ?? []).length === 0 ? {} : { requests: [] };
}

type PatchVmPlan = Extract<RunStatePlan, { kind: "patchVm" }>;

function planGracePeriod({ vmi, options }: RunStateFacts): WithGracePeriod {
  const value = options?.graceSeconds;
  if (value === undefined || vmi === undefined || isVmiFinal(vmi)) return {};
  return {
    vmiOperations: [
      { op: "test", path: "/metadata/uid", value: vmi.metadata.uid },
      { op: "add", path: "/spec/terminationGracePeriodSeconds", value },
    ],
  };
}

/** Plans a start. Returns a conflict if the guest runs or the run strategy starts it, and a refusal if the VM cannot start. */
export function planStart(facts: RunStateFacts): RunStatePlan {
  const message = "the virtual machine will be started";
  if (isStarted(facts)) return conflict("VM is already running");
  if (isRerun(facts))
    return conflict("RerunOnFailure does not support starting VM from failed state");
  switch (runStrategyOf(facts.vm)) {
    case "Halted":
      return refuseUnlessStartable(
        facts,
        {
          kind: "patchVm",
          operations: buildRunningPatch(facts.vm, true),
          ...buildHaltedRequests(facts),
          message,
        },
        facts.macsInUse,
      );
    case "Manual":
    case "RerunOnFailure":
      return refuseUnlessStartable(
        facts,
        requestFromController(facts, buildStartRequests(facts), message),
        facts.macsInUse,
      );
    case "Always":
    case "Once":
      return refuseManualStart(facts);
  }
}

const STOP_MESSAGE = "the virtual machine will be stopped";
const NOT_RUNNING = conflict("VM is not running");

function isStartPending({ vm }: RunStateFacts): boolean {
  return vm.status?.stateChangeRequests?.some(({ action }) => action === "Start") === true;
}

function planStopRequest(facts: RunStateFacts): RunStatePlan {
  const uid = facts.vmi?.metadata.uid;
  const canStop = hasGuest(facts) && uid !== undefined;
  if (!canStop && !isStartPending(facts)) return NOT_RUNNING;
  const requests = canStop ? [{ action: "Stop", uid } as const] : [];
  return { ...requestFromController(facts, requests, STOP_MESSAGE), ...planGracePeriod(facts) };
}

/** Plans a stop of a halted VM whose guest still runs. As in KubeVirt, the stop must shorten the grace period. */
function planShorterStop(facts: RunStateFacts): RunStatePlan {
  if (!hasGuest(facts)) return NOT_RUNNING;
  const { vmiOperations } = planGracePeriod(facts);
  const currentSeconds = facts.vmi?.spec.terminationGracePeriodSeconds ?? Infinity;
  const isShorter = (facts.options?.graceSeconds ?? Infinity) < currentSeconds;
  return vmiOperations === undefined || !isShorter
    ? conflict("Halted only supports manual stop requests with a shorter graceperiod")
    : { kind: "shortenGracePeriod", vmiOperations, message: STOP_MESSAGE };
}

/**
 * Plans a stop. With Always and Once, halts the VM in any case. With Manual and RerunOnFailure, stops the guest or cancels a pending start;
 * returns a conflict if there is neither. With Halted, returns a conflict unless the stop shortens the grace period of a running guest.
 */
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
        operations: buildRunningPatch(facts.vm, false),
        message: STOP_MESSAGE,
        ...planGracePeriod(facts),
      };
  }
}

/** Plans a restart. Refuses it if the strategy is Halted or Once, if no VMI exists, or if the VM could not start again. */
export function planRestart(facts: RunStateFacts): RunStatePlan {
  const message = "the virtual machine will be restarted";
  const strategy = runStrategyOf(facts.vm);
  const uid = facts.vmi?.metadata.uid;
  if (strategy === "Halted" || strategy === "Once") return refuseManualRestart(facts);
  if (uid === undefined) return NOT_RUNNING;
  const gracePeriodPlan = planGracePeriod(facts);
  if (strategy === "Always") {
    const plan = {
      kind: "deleteVmi",
      uid,
      message,
      ...buildBackoffReset(facts),
      ...gracePeriodPlan,
    } as const;
    return refuseUnlessStartable(facts, plan, facts.macsInUse);
  }
  const requests = [{ action: "Stop", uid }, { action: "Start" }] as const;
  const plan = { ...requestFromController(facts, requests, message), ...gracePeriodPlan };
  return refuseUnlessStartable(facts, plan, facts.macsInUse);
}
