// SPDX-License-Identifier: Apache-2.0
// How are sandboxes and containers named, labelled and found again? As every kubelet does it.
import { join } from "node:path";
import type { Pod } from "@patchbay/api";

/** Label with the pod's uid. Source: Kubernetes kubelet types labels.go. */
export const UID_LABEL = "io.kubernetes.pod.uid";
const NAME_LABEL = "io.kubernetes.pod.name";
const NAMESPACE_LABEL = "io.kubernetes.pod.namespace";
const CONTAINER_LABEL = "io.kubernetes.container.name";
/** Annotation of a container: how long its start had been put off, seconds. */
export const RESTART_DELAY_ANNOTATION = "patchbay.io/restart-delay-seconds";

/** Labels of a sandbox. */
export function sandboxLabels({ metadata }: Pod): Readonly<Record<string, string>> {
  return {
    ...metadata.labels,
    [NAME_LABEL]: metadata.name,
    [NAMESPACE_LABEL]: metadata.namespace ?? "",
    [UID_LABEL]: metadata.uid ?? "",
  };
}

/** Labels of a container. */
export function containerLabels(pod: Pod, container: string): Readonly<Record<string, string>> {
  const { name, namespace = "", uid = "" } = pod.metadata;
  return {
    [NAME_LABEL]: name,
    [NAMESPACE_LABEL]: namespace,
    [UID_LABEL]: uid,
    [CONTAINER_LABEL]: container,
  };
}

/** uid of the pod that a sandbox or container is of; undefined: it is of none. */
export function podUidOf(labels: Readonly<Record<string, string>>): string | undefined {
  return labels[UID_LABEL];
}

/** Directory of the logs of a pod. Source: kubelet's layout of `/var/log/pods`. */
export function logDirectoryOf({ metadata }: Pod, logDir: string): string {
  const { namespace = "", name, uid = "" } = metadata;
  return join(logDir, `${namespace}_${name}_${uid}`);
}

/** Log of a container, relative to its pod's. */
export function logPathOf(container: string, attempt: number): string {
  return `${container}/${String(attempt)}.log`;
}
