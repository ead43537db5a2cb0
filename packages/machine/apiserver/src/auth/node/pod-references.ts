// SPDX-License-Identifier: Apache-2.0
// Which objects does a pod need its node to read? Source: Kubernetes pkg/api/pod VisitPodSecretNames, VisitPodConfigmapNames.
import { listOf, textAt, valueAt } from "../../objects/json.ts";
import { CONTAINER_LISTS } from "../../kinds/workload/pod-defaults.ts";

/** Names in the pod's namespace. */
export interface PodReferences {
  readonly persistentvolumeclaims: ReadonlySet<string>;
  readonly configmaps: ReadonlySet<string>;
  readonly secrets: ReadonlySet<string>;
}

function ofVolume(volume: unknown): { configmaps: string[]; secrets: string[] } {
  const sources = listOf(valueAt(volume, "projected", "sources"));
  return {
    configmaps: [volume, ...sources].map((one) => textAt(one, "configMap", "name")),
    secrets: [
      textAt(volume, "secret", "secretName"),
      ...sources.map((one) => textAt(one, "secret", "name")),
    ],
  };
}

function ofContainer(container: unknown): { configmaps: string[]; secrets: string[] } {
  const variables = listOf(valueAt(container, "env"));
  const from = listOf(valueAt(container, "envFrom"));
  return {
    configmaps: [
      ...variables.map((one) => textAt(one, "valueFrom", "configMapKeyRef", "name")),
      ...from.map((one) => textAt(one, "configMapRef", "name")),
    ],
    secrets: [
      ...variables.map((one) => textAt(one, "valueFrom", "secretKeyRef", "name")),
      ...from.map((one) => textAt(one, "secretRef", "name")),
    ],
  };
}

/** What the volumes, variables and pull secrets of a pod's specification name. */
export function podReferencesOf(spec: unknown): PodReferences {
  const containers = CONTAINER_LISTS.flatMap((list) => listOf(valueAt(spec, list)));
  const all = [...listOf(valueAt(spec, "volumes")).map(ofVolume), ...containers.map(ofContainer)];
  const pulls = listOf(valueAt(spec, "imagePullSecrets")).map((one) => textAt(one, "name"));
  const claims = listOf(valueAt(spec, "volumes")).map((volume) =>
    textAt(volume, "persistentVolumeClaim", "claimName"),
  );
  return {
    persistentvolumeclaims: new Set(claims.filter(Boolean)),
    configmaps: new Set(all.flatMap(({ configmaps }) => configmaps).filter(Boolean)),
    secrets: new Set([...all.flatMap(({ secrets }) => secrets), ...pulls].filter(Boolean)),
  };
}
