// SPDX-License-Identifier: Apache-2.0
// May a pod be given to the node, as far as its claims go? Pure. Source: Kubernetes scheduler, volume binding.
import type { PersistentVolume, PersistentVolumeClaim, Pod, StorageClass } from "@patchbay/api";
import { PROVISIONER, SELECTED_NODE } from "../words.ts";

/**
 * How long a claim and a pod may be there, milliseconds, before it is a fault that they are not bound: many times what a
 * file system takes that is made on a busy disk.
 */
const BINDING_WAIT_MS = 30_000;

/** What claims, classes and volumes are found by; namespaces are the pod's. */
export interface ClaimLookup {
  readonly findClaim: (name: string) => PersistentVolumeClaim | undefined;
  readonly findClass: (name: string) => StorageClass | undefined;
  readonly findVolume: (name: string) => PersistentVolume | undefined;
}

/** What stands between a pod and the node; both empty: nothing. */
export interface PodClaims {
  /** Claims that are to be told for which node they are. */
  readonly toSelect: readonly PersistentVolumeClaim[];
  /** Why the pod waits, for people; empty also while a volume is about to be made, which is a matter of seconds. */
  readonly problems: readonly string[];
  /** Whether all claims are bound. */
  readonly areBound: boolean;
  /** When a claim that is not bound by then is told; absent: nothing is about to be bound. */
  readonly lookAgainMs?: number;
}

/** Names of the claims that the pod's volumes name, each once. */
export function claimNamesOf({ spec }: Pod): readonly string[] {
  const names = (spec.volumes ?? []).flatMap(
    ({ persistentVolumeClaim }) => persistentVolumeClaim?.claimName ?? [],
  );
  return [...new Set(names)];
}

type Finding =
  | { readonly kind: "bound" }
  /** Somebody is about to bind it: it has been begun, or needs nobody to begin it. */
  | { readonly kind: "begun"; readonly claim: PersistentVolumeClaim }
  | { readonly kind: "select"; readonly claim: PersistentVolumeClaim }
  | { readonly kind: "problem"; readonly message: string };

function problem(message: string): Finding {
  return { kind: "problem", message };
}

/** A claim that names its volume: between the two writes that bind it, or as its author says. */
function namedOf(claim: PersistentVolumeClaim, lookup: ClaimLookup): Finding {
  const { volumeName = "" } = claim.spec;
  const said = `persistentvolumeclaim "${claim.metadata.name}" names volume "${volumeName}"`;
  const volume = lookup.findVolume(volumeName);
  if (volume === undefined) return problem(`${said}, which does not exist`);
  const owner = volume.spec.claimRef?.uid;
  if (owner !== undefined && owner !== claim.metadata.uid) {
    return problem(`${said}, which is bound to another claim`);
  }
  return { kind: "begun", claim };
}

function unboundOf(claim: PersistentVolumeClaim, lookup: ClaimLookup): Finding {
  const { name, annotations } = claim.metadata;
  const { storageClassName = "", volumeName = "" } = claim.spec;
  if (volumeName !== "") return namedOf(claim, lookup);
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
  const waits = storageClass.volumeBindingMode === "WaitForFirstConsumer";
  const isNew = waits && annotations?.[SELECTED_NODE] === undefined;
  return { kind: isNew ? "select" : "begun", claim };
}

function findingOf(name: string, lookup: ClaimLookup): Finding {
  const claim = lookup.findClaim(name);
  if (claim === undefined) return problem(`persistentvolumeclaim "${name}" not found`);
  if (claim.metadata.deletionTimestamp !== undefined) {
    return problem(`persistentvolumeclaim "${name}" is being deleted`);
  }
  if (claim.status?.phase === "Lost") {
    return problem(`persistentvolumeclaim "${name}" has lost its PersistentVolume`);
  }
  return claim.status?.phase === "Bound" ? { kind: "bound" } : unboundOf(claim, lookup);
}

/** When both are there. */
function togetherMs(pod: Pod, claim: PersistentVolumeClaim): number {
  const times = [pod, claim].map(({ metadata }) => metadata.creationTimestamp ?? "");
  // oxlint-disable-next-line no-restricted-globals -- converts given times, reads no clock
  return Math.max(...times.map((time) => Date.parse(time)).filter((ms) => !Number.isNaN(ms)), 0);
}

/** What the pod's claims lack. Nothing is begun for a pod that will wait all the same. */
export function podClaimsOf(pod: Pod, lookup: ClaimLookup, nowMs: number): PodClaims {
  const findings = claimNamesOf(pod).map((name) => findingOf(name, lookup));
  const problems = findings.flatMap((one) => (one.kind === "problem" ? [one.message] : []));
  const toSelect = findings.flatMap((one) => (one.kind === "select" ? [one.claim] : []));
  const begun = findings.flatMap((one) => (one.kind === "begun" ? [one.claim] : []));
  const leftMs = (claim: PersistentVolumeClaim): number =>
    togetherMs(pod, claim) + BINDING_WAIT_MS - nowMs;
  const late = begun
    .filter((claim) => leftMs(claim) <= 0)
    .map(
      ({ metadata: { name } }) =>
        `persistentvolumeclaim "${name}" is still not bound: kubectl describe pvc ${name} says why`,
    );
  const waits = [...begun, ...toSelect].map(leftMs).filter((ms) => ms > 0);
  return {
    problems: [...problems, ...late],
    toSelect: problems.length > 0 ? [] : toSelect,
    areBound: findings.every(({ kind }) => kind === "bound"),
    ...(waits.length === 0 ? {} : { lookAgainMs: Math.min(...waits) }),
  };
}
