// SPDX-License-Identifier: Apache-2.0
// Which EndpointSlices have these addresses, and what is to be done about those that are there? Pure.
import {
  SERVICE_NAME_LABEL,
  SLICE_ENDPOINTS_MAX,
  SLICE_WRITER_LABEL,
  type Endpoint,
  type EndpointPort,
  type EndpointSlice,
  type Service,
} from "@patchbay/api";
import { isEqual } from "@patchbay/core";

/** What is done with a slice. */
export interface SliceAction {
  readonly kind: "create" | "update" | "delete";
  readonly slice: EndpointSlice;
}

/** One address behind a Service, and the ports that it has there. */
export interface ServicePart {
  readonly ports: readonly EndpointPort[];
  readonly endpoint: Endpoint;
}

/** Who writes these slices, in their label. */
const WRITER = "service-net.patchbay.io";

type Content = Pick<EndpointSlice, "endpoints" | "ports">;

function newSlice({ metadata }: Service, index: number, content: Content): EndpointSlice {
  const { name, namespace = "", uid = "" } = metadata;
  const owner = { apiVersion: "v1", kind: "Service", name, uid, controller: true };
  return {
    apiVersion: "discovery.k8s.io/v1",
    kind: "EndpointSlice",
    metadata: {
      name: `${name}-${String(index)}`,
      namespace,
      labels: { [SERVICE_NAME_LABEL]: name, [SLICE_WRITER_LABEL]: WRITER },
      ownerReferences: [owner],
    },
    addressType: "IPv4",
    ...content,
  };
}

/** As many as one slice may have. */
function chunks(endpoints: readonly Endpoint[]): readonly (readonly Endpoint[])[] {
  const count = Math.ceil(endpoints.length / SLICE_ENDPOINTS_MAX);
  return Array.from({ length: count }, (_none, index) =>
    endpoints.slice(index * SLICE_ENDPOINTS_MAX, (index + 1) * SLICE_ENDPOINTS_MAX),
  );
}

/** Addresses with the same ports share slices; all in an order of their own. */
export function slicesOfParts(
  service: Service,
  parts: readonly ServicePart[],
): readonly EndpointSlice[] {
  const groups = new Map<string, ServicePart[]>();
  for (const part of parts) {
    const key = JSON.stringify(part.ports);
    groups.set(key, [...(groups.get(key) ?? []), part]);
  }
  return [...groups]
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .flatMap(([, group]): readonly Content[] => {
      const ports = group[0]?.ports ?? [];
      return chunks(group.map(({ endpoint }) => endpoint)).map((endpoints) => ({
        ports,
        endpoints,
      }));
    })
    .map((content, index) => newSlice(service, index, content));
}

function isAsWanted(slice: EndpointSlice, wanted: EndpointSlice): boolean {
  const shown = ({ metadata, addressType, endpoints = [], ports = [] }: EndpointSlice): unknown => [
    ...[addressType, endpoints, ports],
    metadata.labels?.[SERVICE_NAME_LABEL],
    metadata.ownerReferences?.map(({ uid }) => uid),
  ];
  return isEqual(shown(slice), shown(wanted));
}

/** What makes the slices of a Service as they are to be; what others have written is left alone. */
export function planSlices(
  wanted: readonly EndpointSlice[],
  slices: readonly EndpointSlice[],
): readonly SliceAction[] {
  const ours = slices.filter(({ metadata }) => metadata.labels?.[SLICE_WRITER_LABEL] === WRITER);
  const find = (all: readonly EndpointSlice[], name: string): EndpointSlice | undefined =>
    all.find(({ metadata }) => metadata.name === name);
  return [
    ...wanted.flatMap((slice): readonly SliceAction[] => {
      const known = find(ours, slice.metadata.name);
      if (known === undefined) return [{ kind: "create", slice }];
      if (isAsWanted(known, slice)) return [];
      const { resourceVersion = "" } = known.metadata;
      const metadata = { ...slice.metadata, resourceVersion };
      return [{ kind: "update", slice: { ...slice, metadata } }];
    }),
    ...ours
      .filter(({ metadata }) => find(wanted, metadata.name) === undefined)
      .map((slice): SliceAction => ({ kind: "delete", slice })),
  ];
}
