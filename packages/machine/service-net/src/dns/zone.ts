// SPDX-License-Identifier: Apache-2.0
// What is a name of this machine's Services? Pure. Source: Kubernetes DNS-Based Service Discovery 1.1.0.
import type { Endpoint, EndpointSlice, Service } from "@patchbay/api";
import { isEndpoint, type Ranges } from "../forward/forwards.ts";

/** A record, without the name that was asked for. */
export type ZoneRecord =
  | { readonly type: "A"; readonly address: string }
  | { readonly type: "CNAME"; readonly target: string }
  | { readonly type: "SRV"; readonly target: string; readonly port: number };

/** `foreign`: of another zone; `missing`: no such name; else its records, of whatever types. */
export type Finding =
  | { readonly kind: "foreign" | "missing" }
  | { readonly kind: "found"; readonly records: readonly ZoneRecord[] };

/** Where names are looked up. */
export interface Zone {
  /** For example `cluster.local`. */
  readonly domain: string;
  readonly ranges: Ranges;
  readonly findService: (namespace: string, name: string) => Service | undefined;
  readonly slicesOf: (service: Service) => readonly EndpointSlice[];
  readonly hasNamespace: (namespace: string) => boolean;
}

const MISSING: Finding = { kind: "missing" };
/** A name below which there are others, and nothing else. */
const EMPTY: Finding = { kind: "found", records: [] };

function found(records: readonly ZoneRecord[]): Finding {
  return records.length === 0 ? MISSING : { kind: "found", records };
}

function isHeadless({ spec }: Service): boolean {
  return spec.clusterIP === "None";
}

/** An endpoint's name below its Service: what the pod calls itself, else its address. */
function labelOf({ hostname }: Endpoint, address: string): string {
  return hostname?.toLowerCase() ?? address.replaceAll(".", "-");
}

interface Place {
  readonly address: string;
  readonly label: string;
  readonly slice: EndpointSlice;
}

/** The endpoints that are ready. */
function placesOf(service: Service, { slicesOf, ranges }: Zone): readonly Place[] {
  return slicesOf(service)
    .filter(({ addressType }) => addressType === "IPv4")
    .flatMap((slice) =>
      (slice.endpoints ?? []).flatMap((endpoint) => {
        const address = endpoint.addresses[0] ?? "";
        const isReady = endpoint.conditions?.ready ?? true;
        if (!isReady || !isEndpoint(address, ranges)) return [];
        return [{ address, label: labelOf(endpoint, address), slice }];
      }),
    );
}

function recordsOf(service: Service, zone: Zone): Finding {
  const { type, externalName = "", clusterIP = "" } = service.spec;
  if (type === "ExternalName")
    return found([{ type: "CNAME", target: externalName.toLowerCase().replace(/\.$/, "") }]);
  if (!isHeadless(service))
    return clusterIP === "" ? EMPTY : found([{ type: "A", address: clusterIP }]);
  return found(placesOf(service, zone).map(({ address }) => ({ type: "A", address })));
}

function recordsOfPlace(label: string, service: Service, zone: Zone): Finding {
  if (!isHeadless(service)) return MISSING;
  const places = placesOf(service, zone).filter((place) => place.label === label);
  return found(places.map(({ address }) => ({ type: "A", address })));
}

/** Where a named port is: at the Service, or at each of its endpoints. */
function portRecords(
  [portName, protocol]: readonly [string, string],
  service: Service,
  zone: Zone,
): Finding {
  const { name, namespace = "" } = service.metadata;
  const own = `${name}.${namespace}.svc.${zone.domain}`;
  const isMeant = (port: { readonly name?: string; readonly protocol?: string }): boolean =>
    (port.name ?? "") === portName && (port.protocol ?? "TCP").toLowerCase() === protocol;
  if (!isHeadless(service)) {
    const port = service.spec.ports?.find(isMeant);
    return port === undefined ? MISSING : found([{ type: "SRV", target: own, port: port.port }]);
  }
  return found(
    placesOf(service, zone).flatMap(({ label, slice }): readonly ZoneRecord[] => {
      const port = slice.ports?.find(isMeant)?.port;
      return port === undefined ? [] : [{ type: "SRV", target: `${label}.${own}`, port }];
    }),
  );
}

function below(labels: readonly string[], service: Service, zone: Zone): Finding {
  const [first = "", second = ""] = labels;
  if (labels.length === 0) return recordsOf(service, zone);
  if (labels.length === 1) return recordsOfPlace(first, service, zone);
  const isPort = labels.length === 2 && first.startsWith("_") && second.startsWith("_");
  return isPort ? portRecords([first.slice(1), second.slice(1)], service, zone) : MISSING;
}

/** Looks a name up, in whatever letters. */
export function lookUp(name: string, zone: Zone): Finding {
  const asked = name.toLowerCase().replace(/\.$/, "");
  if (asked === zone.domain) return EMPTY;
  if (!asked.endsWith(`.${zone.domain}`)) return { kind: "foreign" };
  const labels = asked.slice(0, -zone.domain.length - 1).split(".");
  if (labels.pop() !== "svc") return MISSING;
  const namespace = labels.pop();
  if (namespace === undefined) return EMPTY;
  const serviceName = labels.pop();
  if (serviceName === undefined) return zone.hasNamespace(namespace) ? EMPTY : MISSING;
  const service = zone.findService(namespace, serviceName);
  return service === undefined ? MISSING : below(labels, service, zone);
}
