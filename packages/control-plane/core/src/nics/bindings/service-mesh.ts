// SPDX-License-Identifier: Apache-2.0
// Supports Istio's proxy in the pod of a guest with masquerade binding. docs/design/masquerade.md explains the path of packets.
import { isAbsent, names, type VmiSpec, type VirtualMachineInstance } from "@patchbay/api";
import type { ObjectMeta } from "@patchbay/api/kubernetes";
import { ifacesOf } from "../nics.ts";
import { buildIfaceNames, DEFAULT_POD_INTERFACE } from "../names.ts";

type MeshMetadata = Pick<ObjectMeta, "labels" | "annotations">;

/**
 * Returns whether Istio injects its proxy into the pod. The label takes precedence over the annotation, which Istio deprecates.
 * Source: KubeVirt pkg/network/istio/proxy.go.
 */
export function isMeshed({ labels, annotations }: MeshMetadata): boolean {
  const wanted = labels?.[names.MESH_INJECT] ?? annotations?.[names.MESH_INJECT];
  return wanted?.toLowerCase() === "true";
}

/** Builds the annotations that make Istio intercept the guest's traffic. Source: KubeVirt pkg/network/pod/annotations/generator.go. */
export function buildMeshAnnotations({
  spec,
}: VirtualMachineInstance): Readonly<Record<string, string>> {
  const iface = ifacesOf(spec).find((item) => item.masquerade !== undefined && !isAbsent(item));
  if (iface === undefined) return {};
  const { bridgeName } = buildIfaceNames(iface.name, DEFAULT_POD_INTERFACE);
  return { [names.MESH_INTERFACES]: bridgeName, [names.MESH_INTERFACES_DEPRECATED]: bridgeName };
}

/** If Istio's proxy is requested but the guest's traffic bypasses it, returns the field and the reason; otherwise an empty list. */
export function findBypassedMesh(
  path: string,
  { metadata, spec }: { readonly metadata?: MeshMetadata; readonly spec: VmiSpec },
): readonly string[] {
  if (metadata === undefined || !isMeshed(metadata)) return [];
  if (ifacesOf(spec).some(({ masquerade }) => masquerade !== undefined)) return [];
  const kind = metadata.labels?.[names.MESH_INJECT] === undefined ? "annotations" : "labels";
  const reason = "Istio's proxy receives only traffic of interfaces with masquerade binding";
  return [`${path}metadata.${kind}[${names.MESH_INJECT}] (${reason})`];
}
