// SPDX-License-Identifier: Apache-2.0
// Whether a VM should have a VMI now. Source: KubeVirt pkg/virt-controller/watch/vm syncRunStrategy.
import {
  isVmiFinal,
  runStrategyOf,
  type RunStrategy,
  type StateChangeRequest,
  type VirtualMachine,
  type VirtualMachineInstance,
} from "@patchbay/api";

/** What to do with the VMI. `keep` without a VMI means that none is created. */
type RunStep = "keep" | "start" | "stop";

interface RunDecision {
  readonly step: RunStep;
  /** New `status.stateChangeRequests`, without completed and invalid ones. */
  readonly requests: readonly StateChangeRequest[];
}

export interface RunFacts {
  readonly strategy: RunStrategy;
  /** Recorded run strategy. A change of strategy allows a new automatic start. */
  readonly lastStrategy: RunStrategy | undefined;
  readonly requests: readonly StateChangeRequest[];
  readonly guest: "none" | "alive" | "succeeded" | "failed" | "leaving";
  readonly uid: string | undefined;
}

/** Whether the strategy obeys the request. For Halted, it may only be a start with options, which is written before the spec starts the VM. */
function isObeyed({ strategy }: RunFacts, { action, data }: StateChangeRequest): boolean {
  if (strategy === "Halted") return action === "Start" && data !== undefined;
  return strategy !== "Once" || action === "Start";
}

/** Whether a request is complete: a stop once its VMI is gone, a start once a VMI exists that is not being deleted. */
function isCompleted({ guest, uid }: RunFacts, request: StateChangeRequest): boolean {
  if (request.action === "Stop") return guest === "none" || request.uid !== uid;
  return guest !== "none" && guest !== "leaving";
}

/** Drops requests up to the first pending one, which is the only one in effect. */
function pendingRequests(facts: RunFacts): readonly StateChangeRequest[] {
  const first = facts.requests.findIndex(
    (request) => isObeyed(facts, request) && !isCompleted(facts, request),
  );
  return first < 0 ? [] : facts.requests.slice(first);
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

/** Decides what to do with the VMI. A failed guest is rerun through stored requests, which survive a restart of virt-controller. */
export function decideRun(facts: RunFacts): RunDecision {
  const requests = pendingRequests(facts);
  const [request] = requests;
  if (facts.guest === "leaving") return { step: "keep", requests };
  if (facts.guest === "none") {
    return { step: WITHOUT_VMI[facts.strategy](facts, request?.action), requests };
  }
  const reruns = facts.strategy === "RerunOnFailure" && facts.guest === "failed";
  if (reruns && request === undefined && facts.uid !== undefined) {
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

/** Returns the new `status.runStrategy`. Strategies that start the VM once are recorded after the start. */
export function recordedStrategy(facts: RunFacts): RunStrategy | undefined {
  const starts = facts.strategy === "RerunOnFailure" || facts.strategy === "Once";
  return starts && facts.guest === "none" ? facts.lastStrategy : facts.strategy;
}
