// SPDX-License-Identifier: Apache-2.0
// May a pod be given to the node, as far as its claims go? Pure. Source: Kubernetes scheduler, volume binding.
import type { PersistentVolumeClaim, Pod, StorageClass } from "@patchbay/api";
import { PROVISIONER, SELECTED_NODE } from "../words.ts";

/** What the claims and classes are found by; namespaces are the pod's. */
export interface ClaimLookup {
  readonly findClaim: (name: string) => PersistentVolumeClaim | undefined;
  readonly findClass: (name: string) => StorageClass | undefined;
}

/** What stands between a pod and the node; both empty: nothing. */
export interface PodClaims {
  /** Claims that are to be told for which node they are. */
  readonly toSelect: readonly PersistentVolumeClaim[];
  /** Why the pod waits, for people; empty also while a volume is about to be made. */
  readonly problems: readonly string[];
  /** Whether all claims are bound. */
  readonly areBound: boolean;
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
  | { readonly kind: "select"; readonly claim: PersistentVolumeClaim }
  | { readonly kind: "problem"; readonly message: string };

function problem(message: string): Finding {
  return { kind: "problem", message };
}

function unboundOf(claim: PersistentVolumeClaim, lookup: ClaimLookup): Finding {
  const { name } = claim.metadata;
  const { storageClassName = "", volumeName = "" } = claim.spec;
  const storageClass = lookup.findClass(storageClassName);
  if (storageClassName === "") {
    return problem(`persistentvolumeclaim "${name}" is not bound and has no storage class`);
  }
  if (storageClass === undefined) {
    return problem(
      `persistentvolumeclaim "${name}" names storage class "${storageClassName}", which is not there`,
    );
  }
  const isOurs = storageClass.provisioner === PROVISIONER && volumeName === "";
  if (isOurs && storageClass.volumeBindingMode === "WaitForFirstConsumer") {
    return { kind: "select", claim };
  }
  return problem(`pod has unbound immediate PersistentVolumeClaims: ${name}`);
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

/** What the pod's claims lack. Nothing is begun for a pod that will wait all the same. */
export function podClaimsOf(pod: Pod, lookup: ClaimLookup): PodClaims {
  const findings = claimNamesOf(pod).map((name) => findingOf(name, lookup));
  const problems = findings.flatMap((one) => (one.kind === "problem" ? [one.message] : []));
  const unbound = findings.flatMap((one) => (one.kind === "select" ? [one.claim] : []));
  const isNew = ({ metadata }: PersistentVolumeClaim): boolean =>
    metadata.annotations?.[SELECTED_NODE] === undefined;
  return {
    problems,
    toSelect: problems.length > 0 ? [] : unbound.filter(isNew),
    areBound: findings.every(({ kind }) => kind === "bound"),
  };
}
