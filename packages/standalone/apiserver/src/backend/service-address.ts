// SPDX-License-Identifier: Apache-2.0
import { asList, textAt, valueAt } from "../objects/json.ts";
import type { Store } from "../storage/store.ts";

export interface ServiceReference {
  readonly namespace: string;
  readonly name: string;
  readonly port: number;
}

export interface HostPort {
  readonly host: string;
  readonly port: number;
}

export type UnresolvedReason =
  | "ServiceNotFound"
  | "ServicePortError"
  | "EndpointsNotFound"
  | "MissingEndpoints";

export type Resolution =
  | { readonly isResolved: true; readonly addresses: readonly HostPort[] }
  | { readonly isResolved: false; readonly reason: UnresolvedReason; readonly portName: string };

export function toServiceReference(service: unknown): ServiceReference {
  return {
    namespace: textAt(service, "namespace"),
    name: textAt(service, "name"),
    port: Number(valueAt(service, "port") ?? 443),
  };
}

export function toServerName({ name, namespace }: ServiceReference): string {
  return `${name}.${namespace}.svc`;
}

function toAddresses(subset: unknown, portName: string): HostPort[] {
  const port = asList(valueAt(subset, "ports")).find(
    (candidate) => textAt(candidate, "name") === portName,
  );
  return port === undefined
    ? []
    : asList(valueAt(subset, "addresses")).map((address) => ({
        host: textAt(address, "ip"),
        port: Number(valueAt(port, "port")),
      }));
}

export function resolveService(store: Store, reference: ServiceReference): Resolution {
  const { namespace, name, port } = reference;
  const toUnresolved = (reason: UnresolvedReason, portName = ""): Resolution => ({
    isResolved: false,
    reason,
    portName,
  });
  const service = store.find({ bucket: "/services", namespace, name })?.view();
  if (service === undefined) {
    return toUnresolved("ServiceNotFound");
  }
  if (textAt(service, "spec", "type") === "ExternalName") {
    return {
      isResolved: true,
      addresses: [{ host: textAt(service, "spec", "externalName"), port }],
    };
  }
  const servicePort = asList(valueAt(service, "spec", "ports")).find(
    (candidate) => valueAt(candidate, "port") === port,
  );
  if (servicePort === undefined) {
    return toUnresolved("ServicePortError");
  }
  const portName = textAt(servicePort, "name");
  const endpoints = store.find({ bucket: "/endpoints", namespace, name })?.view();
  if (endpoints === undefined) {
    return toUnresolved("EndpointsNotFound", portName);
  }
  const addresses = asList(endpoints["subsets"]).flatMap((subset) => toAddresses(subset, portName));
  return addresses.length === 0
    ? toUnresolved("MissingEndpoints", portName)
    : { isResolved: true, addresses };
}

/** Describes the failure as Kubernetes does for webhook calls. */
export function describeUnresolved(reference: ServiceReference, reason: UnresolvedReason): string {
  switch (reason) {
    case "ServiceNotFound":
      return `service "${reference.name}" not found`;
    case "ServicePortError":
      return `no service port ${String(reference.port)} found for service "${reference.name}"`;
    case "EndpointsNotFound":
      return `endpoints "${reference.name}" not found`;
    case "MissingEndpoints":
      return `no endpoints available for service "${reference.name}"`;
  }
}
