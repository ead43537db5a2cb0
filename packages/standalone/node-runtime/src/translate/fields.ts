// SPDX-License-Identifier: Apache-2.0
// Reads fields of a pod and resources of its containers for the downward API.
import type { Container, Pod, ResourceFieldSelector } from "@patchbay/api/kubernetes";
import { parseQuantity } from "@patchbay/api/values";
import { findMemoryLimit } from "./resources.ts";
import type { NodeFacts } from "./node-facts.ts";

/** Values that the Pod object does not contain yet when its containers are created. */
export interface FieldContext {
  readonly node: NodeFacts;
  readonly podIps: readonly string[];
}

const SUBSCRIPT_PATTERN = /^metadata\.(labels|annotations)\['([^']+)'\]$/;

function findPlainField(
  { metadata, spec }: Pod,
  path: string,
  context: FieldContext,
): string | undefined {
  const [podIp = ""] = context.podIps;
  const fields: Readonly<Record<string, string>> = {
    "metadata.name": metadata.name,
    "metadata.namespace": metadata.namespace ?? "",
    "metadata.uid": metadata.uid ?? "",
    "spec.nodeName": spec.nodeName ?? context.node.name,
    "spec.serviceAccountName": spec.serviceAccountName ?? "default",
    "status.hostIP": context.node.hostIp,
    "status.hostIPs": context.node.hostIp,
    "status.podIP": podIp,
    "status.podIPs": context.podIps.join(","),
  };
  return fields[path];
}

/** Source: package fieldpath of Kubernetes. */
export function findField(pod: Pod, path: string, context: FieldContext): string | undefined {
  const match = SUBSCRIPT_PATTERN.exec(path);
  if (match === null) return findPlainField(pod, path, context);
  const [, kind, key = ""] = match;
  const { labels = {}, annotations = {} } = pod.metadata;
  return (kind === "labels" ? labels : annotations)[key] ?? "";
}

function computeAmount(container: Container, resource: string): number {
  if (resource === "limits.memory") return findMemoryLimit(container);
  const [list, ...name] = resource.split(".");
  const { limits = {}, requests = {} } = container.resources ?? {};
  const quantity = (list === "limits" ? limits : requests)[name.join(".")];
  return parseQuantity(quantity ?? "0") ?? 0;
}

/** Returns a container's request or limit in units of the divisor, rounded up. */
export function findResourceField(
  pod: Pod,
  { containerName, resource, divisor }: ResourceFieldSelector,
  defaultContainer?: Container,
): string {
  const containers = [...pod.spec.containers, ...(pod.spec.initContainers ?? [])];
  const container = containers.find(({ name }) => name === containerName) ?? defaultContainer;
  const unit = parseQuantity(divisor ?? "1") ?? 1;
  const amount = container === undefined ? 0 : computeAmount(container, resource);
  return String(Math.ceil(amount / (unit > 0 ? unit : 1)));
}
