// SPDX-License-Identifier: Apache-2.0
// Objects and tokens that the volumes of a pod refer to. Pure.
import type { Pod, PodVolume, VolumeProjection } from "@patchbay/api";

export interface ObjectReference {
  readonly kind: "configMap" | "secret";
  readonly name: string;
}

export type TokenSource = NonNullable<VolumeProjection["serviceAccountToken"]>;

function ofProjection({ configMap, secret }: VolumeProjection): readonly ObjectReference[] {
  return [
    ...(configMap === undefined
      ? []
      : [{ kind: "configMap" as const, name: configMap.name ?? "" }]),
    ...(secret === undefined ? [] : [{ kind: "secret" as const, name: secret.name ?? "" }]),
  ];
}

function ofVolume({ configMap, secret, projected }: PodVolume): readonly ObjectReference[] {
  return [
    ...ofProjection({
      ...(configMap !== undefined && { configMap }),
      ...(secret !== undefined && { secret: { name: secret.secretName ?? "" } }),
    }),
    ...(projected?.sources ?? []).flatMap(ofProjection),
  ];
}

export function printReference({ kind, name }: ObjectReference): string {
  return `${kind}/${name}`;
}

export function volumeReferencesOf({ spec }: Pod): readonly ObjectReference[] {
  const all = (spec.volumes ?? []).flatMap(ofVolume);
  return [...new Map(all.map((one) => [printReference(one), one])).values()];
}

export function tokenSourcesOf({ spec }: Pod): readonly TokenSource[] {
  return (spec.volumes ?? []).flatMap(({ projected }) =>
    (projected?.sources ?? []).flatMap(({ serviceAccountToken }) => serviceAccountToken ?? []),
  );
}

/** Whether the volume's content comes from the API server: objects, the pod's metadata or tokens. */
export function isApiBacked({ configMap, secret, downwardAPI, projected }: PodVolume): boolean {
  return [configMap, secret, downwardAPI, projected].some((kind) => kind !== undefined);
}
