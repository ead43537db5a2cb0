// SPDX-License-Identifier: Apache-2.0
// Checks for objects that should have been deleted.
import { names, type VirtualMachineInstance } from "@patchbay/api";
import { isPodFinished, type Pod } from "@patchbay/api/kubernetes";
import { parseTime } from "@patchbay/kube";
import { serverNowMs, type Facts } from "../facts.ts";
import { ifObserved, ok, wrong, type Finding } from "../finding.ts";

/** Maximum age of a launcher without a VMI, and maximum time of a VMI's deletion beyond its grace period, in milliseconds. */
const DELETION_MAX_MS = 120_000;
/** Default grace period of a guest, in seconds. Source: KubeVirt. */
const GRACE_SECONDS = 30;

function findOwnerless(
  pods: readonly Pod[],
  vmis: readonly VirtualMachineInstance[],
  nowMs: number,
): readonly Finding[] {
  const known = new Set(vmis.map(({ metadata }) => metadata.uid));
  return pods
    .filter(
      (pod) => !isPodFinished(pod) && !known.has(pod.metadata.labels?.[names.CREATED_BY_LABEL]),
    )
    .filter(({ metadata }) => nowMs - parseTime(metadata.creationTimestamp ?? "") > DELETION_MAX_MS)
    .map(({ metadata }) => {
      const { namespace = "", name } = metadata;
      return wrong(`launcher ${namespace}/${name}`, {
        message: "runs, but its virtual machine instance is deleted",
        fix: `see virt-controller's log; delete it if it is unused: kubectl -n ${namespace} delete pod ${name}`,
      });
    });
}

function findStuck(vmis: readonly VirtualMachineInstance[], nowMs: number): readonly Finding[] {
  return vmis.flatMap(({ metadata, spec, status }) => {
    const { namespace = "", name, deletionTimestamp } = metadata;
    if (deletionTimestamp === undefined) return [];
    const graceMs = (spec.terminationGracePeriodSeconds ?? GRACE_SECONDS) * 1_000;
    const lateMs = nowMs - parseTime(deletionTimestamp) - graceMs;
    if (lateMs < DELETION_MAX_MS) return [];
    return [
      wrong(`virtual machine instance ${namespace}/${name}`, {
        message: `should have been deleted ${String(Math.round(lateMs / 1_000))} s ago`,
        fix: `check whether node ${status?.nodeName ?? "?"} responds: kubectl -n ${namespace} describe vmi ${name}`,
      }),
    ];
  });
}

export function judgeLeftovers(facts: Facts): readonly Finding[] {
  const nowMs = serverNowMs(facts);
  return ifObserved("leftovers", facts.vmis, (vmis) =>
    ifObserved("leftovers", facts.pods, (pods) => {
      const found = [...findOwnerless(pods, vmis, nowMs), ...findStuck(vmis, nowMs)];
      return found.length > 0 ? found : [ok("leftovers", "none")];
    }),
  );
}
