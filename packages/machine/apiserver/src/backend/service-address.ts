// SPDX-License-Identifier: Apache-2.0
// Where a Service really listens: its Endpoints, or the name outside that it stands for.
import { listOf, textAt, valueAt } from "../objects/json.ts";
import type { Store } from "../storage/store.ts";

/** A Service and one of its ports, as webhooks and APIServices name it. */
export interface ServiceReference {
  readonly namespace: string;
  readonly name: string;
  /** Default 443. */
  readonly port: number;
}

/** An address to connect to. */
export interface HostPort {
  readonly host: string;
  readonly port: number;
}

/** Why there is no address. */
export type Unresolved =
  | "ServiceNotFound"
  | "ServicePortError"
  | "EndpointsNotFound"
  | "MissingEndpoints";

/** What was found. */
export type Resolution =
  | { readonly found: true; readonly at: readonly HostPort[] }
  | { readonly found: false; readonly reason: Unresolved; readonly portName: string };

/** Reads a reference out of an object. */
export function toServiceReference(service: unknown): ServiceReference {
  return {
    namespace: textAt(service, "namespace"),
    name: textAt(service, "name"),
    port: Number(valueAt(service, "port") ?? 443),
  };
}

/** The name by which the Service's servers must know themselves. */
export function serverNameOf({ name, namespace }: ServiceReference): string {
  return `${name}.${namespace}.svc`;
}

function addressesOf(subset: unknown, portName: string): HostPort[] {
  const port = listOf(valueAt(subset, "ports")).find(
    (candidate) => textAt(candidate, "name") === portName,
  );
  return port === undefined
    ? []
    : listOf(valueAt(subset, "addresses")).map((address) => ({
        host: textAt(address, "ip"),
        port: Number(valueAt(port, "port")),
      }));
}

/** Finds the addresses of a Service's port. */
export function resolveService(store: Store, reference: ServiceReference): Resolution {
  const { namespace, name, port } = reference;
  const none = (reason: Unresolved, portName = ""): Resolution => ({
    found: false,
    reason,
    portName,
  });
  const service = store.find({ bucket: "/services", namespace, name })?.view();
  if (service === undefined) {
    return none("ServiceNotFound");
  }
  if (textAt(service, "spec", "type") === "ExternalName") {
    return { found: true, at: [{ host: textAt(service, "spec", "externalName"), port }] };
  }
  const servicePort = listOf(valueAt(service, "spec", "ports")).find(
    (candidate) => valueAt(candidate, "port") === port,
  );
  if (servicePort === undefined) {
    return none("ServicePortError");
  }
  const portName = textAt(servicePort, "name");
  const endpoints = store.find({ bucket: "/endpoints", namespace, name })?.view();
  if (endpoints === undefined) {
    return none("EndpointsNotFound", portName);
  }
  const at = listOf(endpoints["subsets"]).flatMap((subset) => addressesOf(subset, portName));
  return at.length === 0 ? none("MissingEndpoints", portName) : { found: true, at };
}

/** Why a call to the Service fails, as the one who calls is told. */
export function describeUnresolved(reference: ServiceReference, reason: Unresolved): string {
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
