// SPDX-License-Identifier: Apache-2.0
// Lists the objects and tokens that a pod's volumes reference.
import type { Pod, PodVolume, VolumeProjection } from "@patchbay/api/kubernetes";

export interface ObjectReference {
  readonly kind: "configMap" | "secret";
  readonly name: string;
}

export type TokenSource = NonNullable<VolumeProjection["serviceAccountToken"]>;

function listProjectionReferences({
  configMap,
  secret,
}: VolumeProjection): readonly ObjectReference[] {
  return [
    ...(configMap === undefined
      ? []
      : [{ kind: "configMap" as const, name: configMap.name ?? "" }]),
    ...(secret === undefined ? [] : [{ kind: "secret" as const, name: secret.name ?? "" }]),
  ];
}

function listReferences({ configMap, secret, projected }: PodVolume): readonly ObjectReference[] {
  return [
    ...listProjectionReferences({
      ...(configMap !== undefined && { configMap }),
      ...(secret !== undefined && { secret: { name: secret.secretName ?? "" } }),
    }),
    ...(projected?.sources ?? []).flatMap(listProjectionReferences),
  ];
}

export function printReference({ kind, name }: ObjectReference): string {
  return `${kind}/${name}`;
}

export function listVolumeReferences({ spec }: Pod): readonly ObjectReference[] {
  const references = (spec.volumes ?? []).flatMap(listReferences);
  return [
    ...new Map(references.map((reference) => [printReference(reference), reference])).values(),
  ];
}

export function listTokenSources({ spec }: Pod): readonly TokenSource[] {
  return (spec.volumes ?? []).flatMap(({ projected }) =>
    (projected?.sources ?? []).flatMap(({ serviceAccountToken }) => serviceAccountToken ?? []),
  );
}

/** Returns whether the volume contains data of the API server: ConfigMaps, Secrets, fields of the pod, or tokens. */
export function isApiBacked({ configMap, secret, downwardAPI, projected }: PodVolume): boolean {
  return [configMap, secret, downwardAPI, projected].some((kind) => kind !== undefined);
}
