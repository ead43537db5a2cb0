// SPDX-License-Identifier: Apache-2.0
// Decides whether a VM should have a VMI. Source: KubeVirt pkg/virt-controller/watch/vm syncRunStrategy.
import {
  isVmiFinal,
  runStrategyOf,
  type RunStrategy,
  type StateChangeRequest,
  type VirtualMachine,
  type VirtualMachineInstance,
} from "@patchbay/api";

/** Step for the VMI. The step `keep` neither creates nor deletes a VMI. */
type RunStep = "keep" | "start" | "stop";

interface RunDecision {
  readonly step: RunStep;
  /** New `status.stateChangeRequests`, without leading requests that are completed or not permitted. */
  readonly requests: readonly StateChangeRequest[];
}

export interface RunFacts {
  readonly strategy: RunStrategy;
  /** Run strategy in the VM's status. After the spec changes to RerunOnFailure or Once, the VM starts without a start request. */
  readonly lastStrategy: RunStrategy | undefined;
  readonly requests: readonly StateChangeRequest[];
  readonly guest: "none" | "alive" | "succeeded" | "failed" | "leaving";
  readonly uid: string | undefined;
}

/**
 * Returns whether the strategy permits the request. `Once` permits no stop. `Halted` permits only a start with options, because virt-api
 * writes the request of such a start before it changes the strategy.
 */
function isPermitted({ strategy }: RunFacts, { action, data }: StateChangeRequest): boolean {
  if (strategy === "Halted") return action === "Start" && data !== undefined;
  return strategy !== "Once" || action === "Start";
}

/** Checks whether a request is complete. A stop is complete if its VMI is deleted; a start, if a VMI exists and is not being deleted. */
function isCompleted({ guest, uid }: RunFacts, request: StateChangeRequest): boolean {
  if (request.action === "Stop") return guest === "none" || request.uid !== uid;
  return guest !== "none" && guest !== "leaving";
}

/** Drops leading requests that are completed or not permitted. The first remaining request is in effect. */
function listPendingRequests(facts: RunFacts): readonly StateChangeRequest[] {
  const firstPending = facts.requests.findIndex(
    (request) => isPermitted(facts, request) && !isCompleted(facts, request),
  );
  return firstPending < 0 ? [] : facts.requests.slice(firstPending);
}

type Rule = (facts: RunFacts, request: StateChangeRequest["action"] | undefined) => RunStep;

const startsOnce: Rule = ({ lastStrategy, strategy }, request) =>
  request === "Start" || lastStrategy !== strategy ? "start" : "keep";

const WITHOUT_VMI: Readonly<Record<RunStrategy, Rule>> = {
  Always: () => "start",
  Halted: () => "keep",
  Manual: (_facts, request) => (request === "Start" ? "start" : "keep"),
  RerunOnFailure: startsOnce,
  Once: startsOnce,
};

const WITH_VMI: Readonly<Record<RunStrategy, Rule>> = {
  Always: ({ guest }, request) => (guest !== "alive" || request === "Stop" ? "stop" : "keep"),
  Halted: () => "stop",
  Manual: (_facts, request) => (request === "Stop" ? "stop" : "keep"),
  RerunOnFailure: ({ guest }, request) =>
    guest === "succeeded" || request === "Stop" ? "stop" : "keep",
  Once: () => "keep",
};

/** Decides the step for the VMI. The rerun of a failed guest is stored as requests, so that it survives a restart of virt-controller. */
export function decideRun(facts: RunFacts): RunDecision {
  const requests = listPendingRequests(facts);
  const [request] = requests;
  if (facts.guest === "leaving") return { step: "keep", requests };
  if (facts.guest === "none") {
    return { step: WITHOUT_VMI[facts.strategy](facts, request?.action), requests };
  }
  const mustRerun = facts.strategy === "RerunOnFailure" && facts.guest === "failed";
  if (mustRerun && request === undefined && facts.uid !== undefined) {
    return { step: "keep", requests: [{ action: "Stop", uid: facts.uid }, { action: "Start" }] };
  }
  return { step: WITH_VMI[facts.strategy](facts, request?.action), requests };
}

function findGuestState(vmi: VirtualMachineInstance | undefined): RunFacts["guest"] {
  if (vmi === undefined) return "none";
  if (vmi.metadata.deletionTimestamp !== undefined) return "leaving";
  if (!isVmiFinal(vmi)) return "alive";
  return vmi.status?.phase === "Failed" ? "failed" : "succeeded";
}

export function collectRunFacts(
  vm: VirtualMachine,
  vmi: VirtualMachineInstance | undefined,
): RunFacts {
  return {
    strategy: runStrategyOf(vm),
    lastStrategy: vm.status?.runStrategy,
    requests: vm.status?.stateChangeRequests ?? [],
    guest: findGuestState(vmi),
    uid: vmi?.metadata.uid,
  };
}

/**
 * Returns the new `status.runStrategy`. With RerunOnFailure and Once, a VM without a VMI starts without a request only while the recorded
 * strategy differs from the specified one. The old value is therefore kept until a VMI exists.
 */
export function findRecordedStrategy(facts: RunFacts): RunStrategy | undefined {
  const startsOnce = facts.strategy === "RerunOnFailure" || facts.strategy === "Once";
  return startsOnce && facts.guest === "none" ? facts.lastStrategy : facts.strategy;
}
