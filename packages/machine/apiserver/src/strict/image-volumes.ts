// SPDX-License-Identifier: Apache-2.0
// What a server before Kubernetes 1.31 does with volumes that are images: it does not know the field. Source: KEP-4639.
import { fieldsOf, isFields, listOf } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";

/** Takes the images out of a pod's volumes, which become empty directories; returns the paths of what was dropped. */
export function dropImageVolumes(object: KubeObject): readonly string[] {
  if (object.apiVersion !== "v1" || object.kind !== "Pod") return [];
  return listOf(fieldsOf(object["spec"])["volumes"]).flatMap((volume, index) => {
    if (!isFields(volume) || volume["image"] === undefined) return [];
    delete volume["image"];
    volume["emptyDir"] = {};
    return [`spec.volumes[${String(index)}].image`];
  });
}
