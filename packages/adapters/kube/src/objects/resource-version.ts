// SPDX-License-Identifier: Apache-2.0
// Which of two states of an object is the newer one?
import type { KubeObject } from "@patchbay/api";

/** Resource versions of one server are ordered. Source: Kubernetes KEP-5504 "Comparable Resource Version". */
export function versionOf(object: KubeObject): bigint {
  const text = object.metadata.resourceVersion ?? "0";
  return /^\d+$/.test(text) ? BigInt(text) : 0n;
}
