// SPDX-License-Identifier: Apache-2.0
// Is a pod the one that the kubelet calls by a uid?
import type { Pod } from "@patchbay/api";

/** Of a static pod the API server has an image with a uid of its own. Source: kubelet types, ConfigMirrorAnnotationKey. */
const MIRROR_ANNOTATION = "kubernetes.io/config.mirror";

/**
 * Whether the pod has the uid, or is the image of a static pod that has it. Whoever makes a pod can write the annotation:
 * ask only of uids that belong to the pod's own namespace and name.
 */
export function isPodOf(pod: Pod | undefined, uid: string): pod is Pod {
  if (pod === undefined) return false;
  return pod.metadata.uid === uid || pod.metadata.annotations?.[MIRROR_ANNOTATION] === uid;
}
