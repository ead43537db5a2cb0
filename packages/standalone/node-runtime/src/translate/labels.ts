// SPDX-License-Identifier: Apache-2.0
// Labels and log paths of sandboxes and containers, in the kubelet's format.
import { join } from "node:path";
import type { Pod } from "@patchbay/api/kubernetes";

// Source: labels.go of the kubelet.
export const UID_LABEL = "io.kubernetes.pod.uid";
const NAME_LABEL = "io.kubernetes.pod.name";
const NAMESPACE_LABEL = "io.kubernetes.pod.namespace";
const CONTAINER_LABEL = "io.kubernetes.container.name";
/** Annotation of a container with the delay before its start, in seconds. */
export const RESTART_DELAY_ANNOTATION = "patchbay.io/restart-delay-seconds";

export function buildSandboxLabels({ metadata }: Pod): Readonly<Record<string, string>> {
  return {
    ...metadata.labels,
    [NAME_LABEL]: metadata.name,
    [NAMESPACE_LABEL]: metadata.namespace ?? "",
    [UID_LABEL]: metadata.uid ?? "",
  };
}

export function buildContainerLabels(
  pod: Pod,
  container: string,
): Readonly<Record<string, string>> {
  const { name, namespace = "", uid = "" } = pod.metadata;
  return {
    [NAME_LABEL]: name,
    [NAMESPACE_LABEL]: namespace,
    [UID_LABEL]: uid,
    [CONTAINER_LABEL]: container,
  };
}

export function findPodUid(labels: Readonly<Record<string, string>>): string | undefined {
  return labels[UID_LABEL];
}

/** Source: layout of the kubelet's `/var/log/pods`. */
export function buildLogDirectory({ metadata }: Pod, logDir: string): string {
  const { namespace = "", name, uid = "" } = metadata;
  return join(logDir, `${namespace}_${name}_${uid}`);
}

/** Returns a path relative to the pod's log directory. */
export function buildLogPath(container: string, attempt: number): string {
  return `${container}/${String(attempt)}.log`;
}
