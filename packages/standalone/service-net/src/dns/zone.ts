// SPDX-License-Identifier: Apache-2.0
// Resolves the DNS names of Services. Source: Kubernetes DNS-Based Service Discovery 1.1.0.
import type { Endpoint, EndpointSlice, Service } from "@patchbay/api/kubernetes";
import { isEndpoint, type Ranges } from "../forward/forwards.ts";

export type ZoneRecord =
  | { readonly type: "A"; readonly address: string }
  | { readonly type: "CNAME"; readonly target: string }
  | { readonly type: "SRV"; readonly target: string; readonly port: number };

/** Result of a lookup: the name is outside the zone (`foreign`), does not exist (`missing`), or has records. */
export type Lookup =
  | { readonly kind: "foreign" | "missing" }
  | { readonly kind: "found"; readonly records: readonly ZoneRecord[] };

export interface Zone {
  readonly domain: string;
  readonly ranges: Ranges;
  readonly findService: (namespace: string, name: string) => Service | undefined;
  readonly slicesOf: (service: Service) => readonly EndpointSlice[];
  readonly hasNamespace: (namespace: string) => boolean;
}

const MISSING: Lookup = { kind: "missing" };
/** Result for a name that has no records but has subdomains. */
const EMPTY_NAME: Lookup = { kind: "found", records: [] };

function toLookup(records: readonly ZoneRecord[]): Lookup {
  return records.length === 0 ? MISSING : { kind: "found", records };
}

function isHeadless({ spec }: Service): boolean {
  return spec.clusterIP === "None";
}

/** Returns the endpoint's hostname, or its address with dashes instead of dots. */
function endpointLabel({ hostname }: Endpoint, address: string): string {
  return hostname?.toLowerCase() ?? address.replaceAll(".", "-");
}

interface EndpointRecord {
  readonly address: string;
  readonly label: string;
  readonly slice: EndpointSlice;
}

function listReadyEndpoints(
  service: Service,
  { slicesOf, ranges }: Zone,
): readonly EndpointRecord[] {
  return slicesOf(service)
    .filter(({ addressType }) => addressType === "IPv4")
    .flatMap((slice) =>
      (slice.endpoints ?? []).flatMap((endpoint) => {
        const address = endpoint.addresses[0] ?? "";
        const isReady = endpoint.conditions?.ready ?? true;
        if (!isReady || !isEndpoint(address, ranges)) return [];
        return [{ address, label: endpointLabel(endpoint, address), slice }];
      }),
    );
}

function findServiceRecords(service: Service, zone: Zone): Lookup {
  const { type, externalName = "", clusterIP = "" } = service.spec;
  if (type === "ExternalName")
    return toLookup([{ type: "CNAME", target: externalName.toLowerCase().replace(/\.$/, "") }]);
  if (!isHeadless(service))
    return clusterIP === "" ? EMPTY_NAME : toLookup([{ type: "A", address: clusterIP }]);
  return toLookup(listReadyEndpoints(service, zone).map(({ address }) => ({ type: "A", address })));
}

function findEndpointRecords(label: string, service: Service, zone: Zone): Lookup {
  if (!isHeadless(service)) return MISSING;
  const endpointRecords = listReadyEndpoints(service, zone).filter(
    (candidate) => candidate.label === label,
  );
  return toLookup(endpointRecords.map(({ address }) => ({ type: "A", address })));
}

/** Returns one SRV record for the Service, or one for each endpoint of a headless Service. */
function findPortRecords(
  [portName, protocol]: readonly [string, string],
  service: Service,
  zone: Zone,
): Lookup {
  const { name, namespace = "" } = service.metadata;
  const serviceDomain = `${name}.${namespace}.svc.${zone.domain}`;
  const isNamedPort = (port: { readonly name?: string; readonly protocol?: string }): boolean =>
    (port.name ?? "") === portName && (port.protocol ?? "TCP").toLowerCase() === protocol;
  if (!isHeadless(service)) {
    const port = service.spec.ports?.find(isNamedPort);
    return port === undefined
      ? MISSING
      : toLookup([{ type: "SRV", target: serviceDomain, port: port.port }]);
  }
  return toLookup(
    listReadyEndpoints(service, zone).flatMap(({ label, slice }): readonly ZoneRecord[] => {
      const port = slice.ports?.find(isNamedPort)?.port;
      return port === undefined ? [] : [{ type: "SRV", target: `${label}.${serviceDomain}`, port }];
    }),
  );
}

function lookUpInService(labels: readonly string[], service: Service, zone: Zone): Lookup {
  const [first = "", second = ""] = labels;
  if (labels.length === 0) return findServiceRecords(service, zone);
  if (labels.length === 1) return findEndpointRecords(first, service, zone);
  const isPort = labels.length === 2 && first.startsWith("_") && second.startsWith("_");
  return isPort ? findPortRecords([first.slice(1), second.slice(1)], service, zone) : MISSING;
}

export function lookUp(name: string, zone: Zone): Lookup {
  const lowerName = name.toLowerCase().replace(/\.$/, "");
  if (lowerName === zone.domain) return EMPTY_NAME;
  if (!lowerName.endsWith(`.${zone.domain}`)) return { kind: "foreign" };
  const labels = lowerName.slice(0, -zone.domain.length - 1).split(".");
  if (labels.pop() !== "svc") return MISSING;
  const namespace = labels.pop();
  if (namespace === undefined) return EMPTY_NAME;
  const serviceName = labels.pop();
  if (serviceName === undefined) return zone.hasNamespace(namespace) ? EMPTY_NAME : MISSING;
  const service = zone.findService(namespace, serviceName);
  return service === undefined ? MISSING : lookUpInService(labels, service, zone);
}
