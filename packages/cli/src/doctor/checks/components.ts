// SPDX-License-Identifier: Apache-2.0
// Checks of Patchbay's pods or processes, and of the leader.
import { names } from "@patchbay/api";
import type { DaemonSet, Deployment, KubeObject, Lease, Pod } from "@patchbay/api/kubernetes";
import { parseTime } from "@patchbay/kube";
import type { MachineProcesses, MachineProcess } from "@patchbay/supervisor";
import { printSize } from "../../print/size.ts";
import { serverNowMs, type Facts } from "../facts.ts";
import { ifObserved, ok, warning, wrong, type Finding } from "../finding.ts";

const LEADER = "leader of the virt-controllers";
const PROCESSES = "processes of the machine";
const START_MACHINE =
  "start what is missing: patchbay up; see its log below logs/ of the data directory";

interface Workload {
  readonly check: string;
  readonly wanted: number;
  readonly ready: number;
  readonly updated: number;
  /** Number of pods of older versions that exist besides the updated ones. */
  readonly outdated: number;
  /** Whether the status describes the current specification. */
  readonly isCurrent: boolean;
}

interface Generations extends KubeObject {
  readonly status?: { readonly observedGeneration?: number };
}

type Counts = Pick<Workload, "wanted" | "ready" | "updated" | "outdated">;

function toWorkload(kind: string, { metadata, status }: Generations, counts: Counts): Workload {
  const isCurrent = (status?.observedGeneration ?? 0) >= (metadata.generation ?? 0);
  return { check: `${kind} ${metadata.name}`, ...counts, isCurrent };
}

function fromDeployment(deployment: Deployment): Workload {
  const { spec = {}, status = {} } = deployment;
  const { replicas = 1 } = spec;
  const { replicas: existing = 0, readyReplicas = 0, updatedReplicas = 0 } = status;
  return toWorkload("Deployment", deployment, {
    wanted: replicas,
    ready: readyReplicas,
    updated: updatedReplicas,
    outdated: Math.max(0, existing - updatedReplicas),
  });
}

function fromDaemonSet(daemonSet: DaemonSet): Workload {
  const {
    desiredNumberScheduled = 0,
    numberReady = 0,
    updatedNumberScheduled = 0,
  } = daemonSet.status ?? {};
  return toWorkload("DaemonSet", daemonSet, {
    wanted: desiredNumberScheduled,
    ready: numberReady,
    updated: updatedNumberScheduled,
    outdated: 0, // The status counts only the oldest pod of each node.
  });
}

function judgeWorkload({ check, wanted, ready, updated }: Workload): Finding {
  const [, name = ""] = check.split(" ");
  if (wanted === 0) {
    return wrong(check, {
      message: "has no pods: none are requested, or no node is suitable",
      fix: `see its node selector and the nodes' taints: kubectl -n ${names.SERVICES_NAMESPACE} describe ${check.toLowerCase().replace(" ", "/")}`,
    });
  }
  if (ready < wanted) {
    return wrong(check, {
      message: `${String(ready)} of ${String(wanted)} pods are ready`,
      fix: `see why: kubectl -n ${names.SERVICES_NAMESPACE} get pods -o wide -l app.kubernetes.io/name=${name}, and their logs`,
    });
  }
  const outdated = wanted - updated;
  const outdatedNote =
    outdated > 0 ? `; ${String(outdated)} of an older version are being replaced` : "";
  return ok(check, `${String(ready)} of ${String(wanted)} pods are ready${outdatedNote}`);
}

function judgeWorkloads(kind: string, workloads: readonly Workload[]): readonly Finding[] {
  if (workloads.length > 0) return workloads.map(judgeWorkload);
  return [
    wrong(`${kind}s of Patchbay`, {
      message: `there is none in the namespace ${names.SERVICES_NAMESPACE}`,
      fix: "install it: patchbay install",
    }),
  ];
}

export function judgeDaemonSets(all: readonly DaemonSet[]): readonly Finding[] {
  return judgeWorkloads("DaemonSet", all.map(fromDaemonSet));
}

function judgeProcess({ name, runs, isResponding }: MachineProcess): Finding {
  const check = `process ${name}`;
  if (!runs) return wrong(check, { message: "does not run", fix: START_MACHINE });
  if (isResponding === false) {
    const fix = "its supervisor restarts a process that is silent for 30 s";
    return wrong(check, { message: "runs but does not respond", fix });
  }
  return ok(check, isResponding === undefined ? "runs" : "runs and responds");
}

/** Limits below which node-runtime evicts pods and rejects new ones. Source: PRESSURE_SHARE and PRESSURE_BYTES of node-runtime. */
const FULL_DISK = { share: 0.05, bytes: 2 ** 30 };
/** Limits below which node-runtime stops image pulls. Source: LOW_SHARE and LOW_BYTES of node-runtime. */
const LOW_DISK = { share: 0.1, bytes: 2 ** 31 };

function judgeDisk({ path, sizeBytes, freeBytes }: MachineProcesses["disk"]): Finding {
  const check = `disk of ${path}`;
  const state = `${printSize(freeBytes)} of ${printSize(sizeBytes)} are free`;
  const isBelow = ({ share, bytes }: typeof LOW_DISK): boolean =>
    freeBytes < Math.min(sizeBytes * share, bytes);
  if (isBelow(FULL_DISK)) {
    return wrong(check, {
      message: `is full: ${state}; new pods, VMs and images are rejected, and new objects when nothing is left`,
      fix: `free space, and everything continues by itself: du -xh -d 2 ${path} | sort -h | tail; patchbay image list; kubectl get pvc -A`,
    });
  }
  return isBelow(LOW_DISK)
    ? warning(check, `is nearly full: ${state}; images are not pulled`)
    : ok(check, state);
}

function judgeReadOnlyVolume(volume: string): Finding {
  return wrong(`volume ${volume}`, {
    message: "is read-only, because the machine's disk was full or failed during a write",
    fix: `free space, then restart the VM or the pod that uses its claim: kubectl get pvc -A | grep ${volume}`,
  });
}

function judgeProcesses(machine: MachineProcesses): readonly Finding[] {
  const { phase, reason, processes, disk, readOnlyVolumes } = machine;
  const supervisor =
    phase === "ready"
      ? ok("supervisor", "manages the machine's processes")
      : wrong("supervisor", {
          message: reason === "" ? `is ${phase}` : `is ${phase}: ${reason}`,
          fix: START_MACHINE,
        });
  return [
    supervisor,
    ...processes.map(judgeProcess),
    judgeDisk(disk),
    ...readOnlyVolumes.map(judgeReadOnlyVolume),
  ];
}

function judgeLeader(lease: Lease | undefined, nowMs: number): readonly Finding[] {
  const { holderIdentity = "", renewTime, leaseDurationSeconds = 0 } = lease?.spec ?? {};
  const fix = `nothing is plugged without a leader; see the logs of virt-controller, and: kubectl -n ${names.SERVICES_NAMESPACE} get lease virt-controller`;
  if (holderIdentity === "") return [wrong(LEADER, { message: "there is no leader", fix })];
  const silentMs = nowMs - parseTime(renewTime ?? "");
  // If the lease was not renewed for twice its duration, neither the holder nor another candidate works.
  if (!(silentMs <= leaseDurationSeconds * 2_000)) {
    const message = `${holderIdentity} has not renewed its lease for ${String(Math.round(silentMs / 1000))} s`;
    return [wrong(LEADER, { message, fix })];
  }
  return [ok(LEADER, `is ${holderIdentity}`)];
}

export function judgeComponents(facts: Facts): readonly Finding[] {
  const { deployments, daemonSets, processes, leader } = facts;
  if (processes !== undefined) return ifObserved(PROCESSES, processes, judgeProcesses);
  return [
    ...ifObserved("Deployments of Patchbay", deployments, (value) =>
      judgeWorkloads("Deployment", value.map(fromDeployment)),
    ),
    ...ifObserved("DaemonSets of Patchbay", daemonSets, judgeDaemonSets),
    ...ifObserved(LEADER, leader, (value) => judgeLeader(value, serverNowMs(facts))),
  ];
}

/** Reasons of waiting containers that do not end without a user's action. Source: kubelet, images and container states. */
const STUCK_REASONS: ReadonlySet<string> = new Set([
  "CrashLoopBackOff",
  "CreateContainerConfigError",
  "CreateContainerError",
  "ErrImageNeverPull",
  "ErrImagePull",
  "ImagePullBackOff",
  "InvalidImageName",
]);

function findPodProblem({ metadata, status }: Pod): string | undefined {
  const stuck = status?.containerStatuses?.find(({ state }) =>
    STUCK_REASONS.has(state.waiting?.reason ?? ""),
  );
  const waiting = stuck?.state.waiting;
  if (waiting === undefined) return undefined;
  const detail = waiting.message === undefined ? "" : `: ${waiting.message}`;
  return `pod ${metadata.name}: ${waiting.reason}${detail}`;
}

export interface RolloutObjects {
  readonly deployments: readonly Deployment[];
  readonly daemonSets: readonly DaemonSet[];
  readonly pods: readonly Pod[];
}

export interface Rollout {
  readonly lines: readonly string[];
  /** Those of `lines` for which an installation waits. */
  readonly pending: readonly string[];
}

/** Like `kubectl rollout status`, waits for the removal of outdated pods, because the ready ones can be among them. */
function judgeProgress({ check, wanted, ready, updated, outdated, isCurrent }: Workload): {
  readonly line: string;
  readonly isReady: boolean;
} {
  const count = isCurrent ? Math.min(updated, Math.max(0, ready - outdated)) : 0;
  const note = isCurrent && outdated > 0 ? `; ${String(outdated)} of an older version remain` : "";
  return {
    line: `${check}: ${String(count)} of ${String(wanted)} pods are ready${note}`,
    isReady: isCurrent && count >= wanted && outdated === 0,
  };
}

export function judgeRollout({ deployments, daemonSets, pods }: RolloutObjects): Rollout {
  const workloads = [...deployments.map(fromDeployment), ...daemonSets.map(fromDaemonSet)];
  const states = workloads.map(judgeProgress);
  const problems = pods.flatMap((pod) => findPodProblem(pod) ?? []);
  const waiting = states.filter(({ isReady }) => !isReady).map(({ line }) => line);
  return {
    lines: [...states.map(({ line }) => line), ...problems],
    pending: waiting.length === 0 ? [] : [...waiting, ...problems],
  };
}
