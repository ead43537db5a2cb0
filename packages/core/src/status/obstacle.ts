// SPDX-License-Identifier: Apache-2.0
// Why a VM or VMI does not become what its specification says: what people see first.
import type {
  Condition,
  FieldProblem,
  NetworkConfig,
  Pod,
  VirtualMachine,
  VirtualMachineInstance,
} from "@patchbay/api";
import { hasLostKernel } from "../plan/pod/launcher-pod.ts";
import { sayProblems, vmiStartProblems } from "../plan/vm/start-problems.ts";
import { SYNCHRONIZED } from "./conditions.ts";
import { sayFailures, type StepFailure } from "./step-failure.ts";

/** What stands in the way. */
export interface Obstacle {
  /** Stable, in CamelCase; listed in docs/reference/phases.md. */
  readonly reason: string;
  readonly message: string;
}

/** Why a container waits that does not come up by itself. Source: Kubernetes pkg/kubelet/images, pkg/kubelet/container. */
const STUCK: ReadonlySet<string> = new Set([
  "ErrImageNeverPull",
  "ErrImagePull",
  "ImagePullBackOff",
  "ImageInspectError",
  "InvalidImageName",
  "RegistryUnavailable",
  "CreateContainerConfigError",
  "CreateContainerError",
  "RunContainerError",
]);

/** What the pod's container waits for, if it waits. */
export function findWaiting(pod: Pod | undefined): Obstacle | undefined {
  const waiting = pod?.status?.containerStatuses?.find(({ state }) => state.waiting !== undefined)
    ?.state.waiting;
  return waiting && { reason: waiting.reason, message: waiting.message ?? "" };
}

function unsupported(problems: readonly FieldProblem[]): Obstacle | undefined {
  if (problems.length === 0) return undefined;
  return { reason: "UnsupportedSpec", message: sayProblems(problems) };
}

/** The scheduler finds no node. Source: Kubernetes PodScheduled, PodReasonUnschedulable. */
function unschedulable(pod: Pod | undefined): Obstacle | undefined {
  const told = pod?.status?.conditions?.find(({ type }) => type === "PodScheduled");
  if (told?.status !== "False" || told.reason !== "Unschedulable") return undefined;
  return { reason: told.reason, message: told.message ?? "" };
}

/** The launcher would find an empty directory. Source: Kubernetes KEP-4639 "image volume source". */
function dropped(pod: Pod | undefined): Obstacle | undefined {
  if (pod === undefined || !hasLostKernel(pod)) return undefined;
  const message =
    "the API server has dropped the image of the launcher pod's volume with the kernel: image volumes need Kubernetes 1.31 with feature gate ImageVolume, which is on from 1.35";
  return { reason: "PodFieldDropped", message };
}

function stuck(pod: Pod | undefined): Obstacle | undefined {
  const waiting = findWaiting(pod);
  return waiting !== undefined && STUCK.has(waiting.reason) ? waiting : undefined;
}

/** What is known of a VMI. */
export interface VmiSituation {
  readonly vmi: VirtualMachineInstance;
  readonly pod: Pod | undefined;
  readonly network: NetworkConfig;
  /** Steps that the API server does not allow. */
  readonly failures: readonly StepFailure[];
}

/** What virt-handler tells of the VM as a whole. */
function toldByNode({ status }: VirtualMachineInstance): Obstacle | undefined {
  const { reason, message } = status?.hindrance ?? {};
  return reason === undefined || message === undefined ? undefined : { reason, message };
}

/** Of a VMI. */
export function vmiObstacle(situation: VmiSituation): Obstacle | undefined {
  const { vmi, pod, network, failures } = situation;
  return (
    unsupported(vmiStartProblems(vmi, network)) ??
    sayFailures(failures) ??
    dropped(pod) ??
    toldByNode(vmi) ??
    unschedulable(pod) ??
    stuck(pod)
  );
}

/** What is known of a VM. */
export interface VmSituation {
  readonly vm: VirtualMachine;
  /** The VM's own. */
  readonly vmi: VirtualMachineInstance | undefined;
  /** Why it cannot be started. */
  readonly startProblems: readonly FieldProblem[];
  /** A VMI of the VM's name is there that is not the VM's. */
  readonly isNameTaken: boolean;
  /** Steps that the API server does not allow. */
  readonly failures: readonly StepFailure[];
}

function nameTaken({ vm, isNameTaken }: VmSituation): Obstacle | undefined {
  if (!isNameTaken) return undefined;
  const message = `a VirtualMachineInstance ${vm.metadata.name} is there that is not of this VM; delete it or rename the VM`;
  return { reason: "NameTaken", message };
}

/** Of a VM: its own, else that of its VMI. */
export function vmObstacle(situation: VmSituation): Obstacle | undefined {
  const { startProblems, failures, vmi } = situation;
  return (
    unsupported(startProblems) ??
    nameTaken(situation) ??
    sayFailures(failures) ??
    findObstacle(vmi?.status?.conditions)
  );
}

/** What the condition says. */
export function synchronizedCondition(
  obstacle: Obstacle | undefined,
): readonly (Obstacle & Pick<Condition, "type" | "status">)[] {
  return obstacle === undefined ? [] : [{ type: SYNCHRONIZED, status: "False", ...obstacle }];
}

/** What an object's conditions tell of an obstacle. */
export function findObstacle(conditions: readonly Condition[] | undefined): Obstacle | undefined {
  const told = conditions?.find(({ type }) => type === SYNCHRONIZED);
  if (told?.status !== "False") return undefined;
  return { reason: told.reason ?? "", message: told.message ?? "" };
}

/** The obstacle that is told now and was not told before, for an event. */
export function newObstacle(
  before: readonly Condition[] | undefined,
  now: readonly Condition[] | undefined,
): Obstacle | undefined {
  const [old, told] = [findObstacle(before), findObstacle(now)];
  return old?.reason === told?.reason && old?.message === told?.message ? undefined : told;
}
