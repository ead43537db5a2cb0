// SPDX-License-Identifier: Apache-2.0
// Which objects and tokens does a pod's volumes show? Pure.
import type { Pod, PodVolume, VolumeProjection } from "@patchbay/api";

/** A ConfigMap or Secret in the pod's namespace. */
export interface ObjectReference {
  readonly kind: "configMap" | "secret";
  readonly name: string;
}

/** A token that a volume shows. */
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

/** As text, for keys of maps. */
export function printReference({ kind, name }: ObjectReference): string {
  return `${kind}/${name}`;
}

/** Objects that the pod's volumes show, each once. */
export function volumeReferencesOf({ spec }: Pod): readonly ObjectReference[] {
  const all = (spec.volumes ?? []).flatMap(ofVolume);
  return [...new Map(all.map((one) => [printReference(one), one])).values()];
}

/** Tokens that the pod's volumes show. */
export function tokenSourcesOf({ spec }: Pod): readonly TokenSource[] {
  return (spec.volumes ?? []).flatMap(({ projected }) =>
    (projected?.sources ?? []).flatMap(({ serviceAccountToken }) => serviceAccountToken ?? []),
  );
}

/** Whether something else than the pod itself can change what is in the volume. */
export function isShown({ configMap, secret, downwardAPI, projected }: PodVolume): boolean {
  return [configMap, secret, downwardAPI, projected].some((kind) => kind !== undefined);
}
