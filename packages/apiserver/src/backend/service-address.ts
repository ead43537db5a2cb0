// SPDX-License-Identifier: Apache-2.0
// Where a Service really listens: its Endpoints.
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

/** What was found. */
export type Resolution =
  | { readonly found: true; readonly at: HostPort }
  | {
      readonly found: false;
      readonly reason: "ServiceNotFound" | "ServicePortError" | "MissingEndpoints";
      readonly message: string;
    };

/** Reads a reference out of an object. */
export function toServiceReference(service: unknown): ServiceReference {
  return {
    namespace: textAt(service, "namespace"),
    name: textAt(service, "name"),
    port: Number(valueAt(service, "port") ?? 443),
  };
}

function endpointOf(endpoints: unknown, portName: string): HostPort | undefined {
  for (const subset of listOf(valueAt(endpoints, "subsets"))) {
    const ports = listOf(valueAt(subset, "ports"));
    const port =
      ports.find((candidate) => textAt(candidate, "name") === portName) ??
      (ports.length === 1 ? ports[0] : undefined);
    const host = textAt(listOf(valueAt(subset, "addresses"))[0], "ip");
    if (port !== undefined && host !== "") {
      return { host, port: Number(valueAt(port, "port")) };
    }
  }
  return undefined;
}

/** Finds the address of a Service's port. */
export function resolveService(store: Store, reference: ServiceReference): Resolution {
  const { namespace, name } = reference;
  const printed = `${namespace}/${name}`;
  const service = store.find({ bucket: "/services", namespace, name })?.view();
  if (service === undefined) {
    const message = `service/${name} in "${namespace}" is not present`;
    return { found: false, reason: "ServiceNotFound", message };
  }
  const port = listOf(valueAt(service, "spec", "ports")).find(
    (candidate) => valueAt(candidate, "port") === reference.port,
  );
  if (port === undefined) {
    const message = `service ${printed} has no port ${String(reference.port)}`;
    return { found: false, reason: "ServicePortError", message };
  }
  const endpoints = store.find({ bucket: "/endpoints", namespace, name })?.view();
  const at = endpointOf(endpoints, textAt(port, "name"));
  return at === undefined
    ? {
        found: false,
        reason: "MissingEndpoints",
        message: `endpoints for service/${name} in "${namespace}" have no addresses`,
      }
    : { found: true, at };
}
