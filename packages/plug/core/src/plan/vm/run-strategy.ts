// SPDX-License-Identifier: Apache-2.0
// Whether a VM is to have a VMI now. Source: KubeVirt pkg/virt-controller/watch/vm syncRunStrategy.
import {
  isVmiFinal,
  runStrategyOf,
  type RunStrategy,
  type StateChangeRequest,
  type VirtualMachine,
  type VirtualMachineInstance,
} from "@patchbay/api";

/** What is to happen with the VMI. `keep` also where there is none. */
type RunStep = "keep" | "start" | "stop";

/** What follows from strategy, requests and the guest's end. */
interface RunDecision {
  readonly step: RunStep;
  /** `status.stateChangeRequests` as it is to be: what was carried out or has no meaning is gone. */
  readonly requests: readonly StateChangeRequest[];
}

/** What the strategy, what was asked for, and the guest say of running. */
export interface RunFacts {
  readonly strategy: RunStrategy;
  /** The strategy under which the VM was last looked at: another one starts anew. */
  readonly lastStrategy: RunStrategy | undefined;
  readonly requests: readonly StateChangeRequest[];
  readonly guest: "none" | "alive" | "succeeded" | "failed" | "leaving";
  /** Of the VMI, if there is one. */
  readonly uid: string | undefined;
}

/**
 * Halted and Once have no requests: they are said in the spec. How the guest is to start is asked for before the spec
 * says that it is to.
 */
function hasMeaning({ strategy }: RunFacts, { action, data }: StateChangeRequest): boolean {
  if (strategy === "Halted") return action === "Start" && data !== undefined;
  return strategy !== "Once" || action === "Start";
}

/** A stop is for one VMI; a start is over as soon as there is a VMI that stays. */
function isOver({ guest, uid }: RunFacts, request: StateChangeRequest): boolean {
  if (request.action === "Stop") return guest === "none" || request.uid !== uid;
  return guest !== "none" && guest !== "leaving";
}

/** Only the first request counts; the next one is looked at when it is over. */
function pendingRequests(facts: RunFacts): readonly StateChangeRequest[] {
  const first = facts.requests.findIndex(
    (request) => hasMeaning(facts, request) && !isOver(facts, request),
  );
  return first < 0 ? [] : facts.requests.slice(first);
}

type Rule = (facts: RunFacts, request: StateChangeRequest["action"] | undefined) => RunStep;

/** It starts by itself once, and again when it is asked for. */
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

/** The next step. A guest that failed is asked for anew by requests, so that nothing is forgotten in between. */
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

function guestOf(vmi: VirtualMachineInstance | undefined): RunFacts["guest"] {
  if (vmi === undefined) return "none";
  if (vmi.metadata.deletionTimestamp !== undefined) return "leaving";
  if (!isVmiFinal(vmi)) return "alive";
  return vmi.status?.phase === "Failed" ? "failed" : "succeeded";
}

/** What a VM and its own VMI say about running. */
export function runFactsOf(vm: VirtualMachine, vmi: VirtualMachineInstance | undefined): RunFacts {
  return {
    strategy: runStrategyOf(vm),
    lastStrategy: vm.status?.runStrategy,
    requests: vm.status?.stateChangeRequests ?? [],
    guest: guestOf(vmi),
    uid: vmi?.metadata.uid,
  };
}

/** `status.runStrategy`: a strategy that starts by itself is noted when it has started. */
export function notedStrategy(facts: RunFacts): RunStrategy | undefined {
  const starts = facts.strategy === "RerunOnFailure" || facts.strategy === "Once";
  return starts && facts.guest === "none" ? facts.lastStrategy : facts.strategy;
}
