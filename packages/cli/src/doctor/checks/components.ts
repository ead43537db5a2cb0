// SPDX-License-Identifier: Apache-2.0
// Checks of Patchbay's pods or processes, and of the leader.
import { names } from "@patchbay/api";
import type { DaemonSet, Deployment, Lease } from "@patchbay/api/kubernetes";
import { parseTime } from "@patchbay/kube";
import type { MachineProcesses, MachineProcess } from "@patchbay/supervisor";
import { serverNowMs, type Facts } from "../facts.ts";
import { ifObserved, ok, wrong, type Finding } from "../finding.ts";

const LEADER = "leader of the virt-controllers";
const PROCESSES = "processes of the machine";
const START_MACHINE =
  "start what is missing: patchbay up; see its log below logs/ of the data directory";

interface Workload {
  readonly check: string;
  readonly wanted: number;
  readonly ready: number;
  /** Number of pods of the current version. */
  readonly updated: number;
}

function fromDeployment({ metadata, spec, status }: Deployment): Workload {
  return {
    check: `Deployment ${metadata.name}`,
    wanted: spec?.replicas ?? 1,
    ready: status?.readyReplicas ?? 0,
    updated: status?.updatedReplicas ?? 0,
  };
}

function fromDaemonSet({ metadata, status }: DaemonSet): Workload {
  return {
    check: `DaemonSet ${metadata.name}`,
    wanted: status?.desiredNumberScheduled ?? 0,
    ready: status?.numberReady ?? 0,
    updated: status?.updatedNumberScheduled ?? 0,
  };
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

/** Checks each workload. The absence of workloads is a fault. */
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

function judgeProcesses({ phase, reason, processes }: MachineProcesses): readonly Finding[] {
  const supervisor =
    phase === "ready"
      ? ok("supervisor", "manages the machine's processes")
      : wrong("supervisor", {
          message: reason === "" ? `is ${phase}` : `is ${phase}: ${reason}`,
          fix: START_MACHINE,
        });
  return [supervisor, ...processes.map(judgeProcess)];
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

/** Checks the pods and the leader in a cluster, or the processes of a standalone machine. */
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
