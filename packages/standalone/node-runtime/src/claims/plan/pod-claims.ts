// SPDX-License-Identifier: Apache-2.0
// Decides whether a pod's claims allow the pod to be bound to the node. Source: volume binding of Kubernetes' scheduler.
import type {
  PersistentVolume,
  PersistentVolumeClaim,
  Pod,
  StorageClass,
} from "@patchbay/api/kubernetes";
import { PROVISIONER, SELECTED_NODE_ANNOTATION } from "../names.ts";

/** Time that a claim may stay unbound after both the pod and the claim exist. After this time, a problem is reported. */
const BINDING_WAIT_MS = 30_000;

export interface ClaimLookup {
  readonly findClaim: (name: string) => PersistentVolumeClaim | undefined;
  readonly findClass: (name: string) => StorageClass | undefined;
  readonly findVolume: (name: string) => PersistentVolume | undefined;
}

export interface PodClaims {
  readonly claimsToSelect: readonly PersistentVolumeClaim[];
  readonly problems: readonly string[];
  readonly areBound: boolean;
  /** Time until the binding of a claim is overdue. Unset when no claim is being bound. */
  readonly requeueAfterMs?: number;
}

export function listClaimNames({ spec }: Pod): readonly string[] {
  const names = (spec.volumes ?? []).flatMap(
    ({ persistentVolumeClaim }) => persistentVolumeClaim?.claimName ?? [],
  );
  return [...new Set(names)];
}

type Finding =
  | { readonly kind: "bound" }
  | { readonly kind: "begun"; readonly claim: PersistentVolumeClaim }
  | { readonly kind: "select"; readonly claim: PersistentVolumeClaim }
  | { readonly kind: "problem"; readonly message: string };

function problem(message: string): Finding {
  return { kind: "problem", message };
}

/** Checks an unbound claim whose volumeName was set by the claim's author or by an unfinished binding. */
function checkNamedVolume(claim: PersistentVolumeClaim, lookup: ClaimLookup): Finding {
  const { volumeName = "" } = claim.spec;
  const description = `persistentvolumeclaim "${claim.metadata.name}" names volume "${volumeName}"`;
  const volume = lookup.findVolume(volumeName);
  if (volume === undefined) return problem(`${description}, which does not exist`);
  const owner = volume.spec.claimRef?.uid;
  if (owner !== undefined && owner !== claim.metadata.uid) {
    return problem(`${description}, which is bound to another claim`);
  }
  return { kind: "begun", claim };
}

function checkUnboundClaim(claim: PersistentVolumeClaim, lookup: ClaimLookup): Finding {
  const { name, annotations } = claim.metadata;
  const { storageClassName = "", volumeName = "" } = claim.spec;
  if (volumeName !== "") return checkNamedVolume(claim, lookup);
  const storageClass = lookup.findClass(storageClassName);
  if (storageClassName === "") {
    return problem(`persistentvolumeclaim "${name}" is not bound and has no storage class`);
  }
  if (storageClass === undefined) {
    return problem(
      `persistentvolumeclaim "${name}" names storage class "${storageClassName}", which does not exist`,
    );
  }
  if (storageClass.provisioner !== PROVISIONER) {
    return problem(`pod has unbound immediate PersistentVolumeClaims: ${name}`);
  }
  const waitsForPod = storageClass.volumeBindingMode === "WaitForFirstConsumer";
  const needsNode = waitsForPod && annotations?.[SELECTED_NODE_ANNOTATION] === undefined;
  return { kind: needsNode ? "select" : "begun", claim };
}

function checkClaim(name: string, lookup: ClaimLookup): Finding {
  const claim = lookup.findClaim(name);
  if (claim === undefined) return problem(`persistentvolumeclaim "${name}" not found`);
  if (claim.metadata.deletionTimestamp !== undefined) {
    return problem(`persistentvolumeclaim "${name}" is being deleted`);
  }
  if (claim.status?.phase === "Lost") {
    return problem(`persistentvolumeclaim "${name}" has lost its PersistentVolume`);
  }
  return claim.status?.phase === "Bound" ? { kind: "bound" } : checkUnboundClaim(claim, lookup);
}

function coexistenceStartMs(pod: Pod, claim: PersistentVolumeClaim): number {
  const times = [pod, claim].map(({ metadata }) => metadata.creationTimestamp ?? "");
  // oxlint-disable-next-line no-restricted-globals -- converts given times, reads no clock
  return Math.max(...times.map((time) => Date.parse(time)).filter((ms) => !Number.isNaN(ms)), 0);
}

/** Plans the binding of a pod's claims. If one claim has a problem, no claim is annotated with the selected node. */
export function planPodClaims(pod: Pod, lookup: ClaimLookup, nowMs: number): PodClaims {
  const findings = listClaimNames(pod).map((name) => checkClaim(name, lookup));
  const problems = findings.flatMap((finding) =>
    finding.kind === "problem" ? [finding.message] : [],
  );
  const claimsToSelect = findings.flatMap((one) => (one.kind === "select" ? [one.claim] : []));
  const bindingClaims = findings.flatMap((one) => (one.kind === "begun" ? [one.claim] : []));
  const remainingMs = (claim: PersistentVolumeClaim): number =>
    coexistenceStartMs(pod, claim) + BINDING_WAIT_MS - nowMs;
  const overdueProblems = bindingClaims
    .filter((claim) => remainingMs(claim) <= 0)
    .map(
      ({ metadata: { name } }) =>
        `persistentvolumeclaim "${name}" is still not bound; for the reason, run: kubectl describe pvc ${name}`,
    );
  const remainingTimes = [...bindingClaims, ...claimsToSelect]
    .map(remainingMs)
    .filter((ms) => ms > 0);
  return {
    problems: [...problems, ...overdueProblems],
    claimsToSelect: problems.length > 0 ? [] : claimsToSelect,
    areBound: findings.every(({ kind }) => kind === "bound"),
    ...(remainingTimes.length === 0 ? {} : { requeueAfterMs: Math.min(...remainingTimes) }),
  };
}
