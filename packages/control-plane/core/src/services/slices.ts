// SPDX-License-Identifier: Apache-2.0
import {
  SERVICE_NAME_LABEL,
  SLICE_ENDPOINTS_MAX,
  SLICE_WRITER_LABEL,
  type Endpoint,
  type EndpointPort,
  type EndpointSlice,
  type Service,
} from "@patchbay/api/kubernetes";
import { isEqual } from "@patchbay/base";

interface SliceAction {
  readonly kind: "create" | "update" | "delete";
  readonly slice: EndpointSlice;
}

/** An endpoint, with the fields by which endpoints are grouped into slices. */
export interface ServicePart {
  readonly addressType: "IPv4" | "IPv6";
  readonly ports: readonly EndpointPort[];
  readonly endpoint: Endpoint;
}

interface SliceOwner {
  readonly service: Service;
  readonly writer: string;
  readonly stem: string;
}

type Content = Pick<EndpointSlice, "endpoints" | "ports">;

export function findServiceKey({ metadata }: EndpointSlice): string | undefined {
  const name = metadata.labels?.[SERVICE_NAME_LABEL];
  return name === undefined ? undefined : `${metadata.namespace ?? ""}/${name}`;
}

function newSlice(
  { service, writer }: SliceOwner,
  sliceName: string,
  content: Content & Pick<EndpointSlice, "addressType">,
): EndpointSlice {
  const { name, namespace = "", uid = "" } = service.metadata;
  const owner = { apiVersion: "v1", kind: "Service", name, uid, controller: true };
  return {
    apiVersion: "discovery.k8s.io/v1",
    kind: "EndpointSlice",
    metadata: {
      name: sliceName,
      namespace,
      labels: { [SERVICE_NAME_LABEL]: name, [SLICE_WRITER_LABEL]: writer },
      ownerReferences: [owner],
    },
    ...content,
  };
}

function splitEndpoints(endpoints: readonly Endpoint[]): readonly (readonly Endpoint[])[] {
  const count = Math.ceil(endpoints.length / SLICE_ENDPOINTS_MAX);
  return Array.from({ length: count }, (_none, index) =>
    endpoints.slice(index * SLICE_ENDPOINTS_MAX, (index + 1) * SLICE_ENDPOINTS_MAX),
  );
}

function groupContents(parts: readonly ServicePart[]): readonly Content[] {
  const groups = Map.groupBy(parts, ({ ports }) => JSON.stringify(ports));
  return [...groups]
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .flatMap(([, group]) => {
      const ports = group[0]?.ports ?? [];
      return splitEndpoints(group.map(({ endpoint }) => endpoint)).map((endpoints) => ({
        ports,
        endpoints,
      }));
    });
}

/** Name infix per address family, because a slice's family is immutable. Source: Kubernetes validation of EndpointSlice. */
const FAMILIES = [
  { addressType: "IPv4", infix: "" },
  { addressType: "IPv6", infix: "-ipv6" },
] as const;

export function slicesOfParts(
  owner: SliceOwner,
  parts: readonly ServicePart[],
): readonly EndpointSlice[] {
  return FAMILIES.flatMap(({ addressType, infix }) =>
    groupContents(parts.filter((part) => part.addressType === addressType)).map((content, index) =>
      newSlice(owner, `${owner.stem}${infix}-${String(index)}`, { addressType, ...content }),
    ),
  );
}

function isUpToDate(slice: EndpointSlice, wanted: EndpointSlice): boolean {
  const comparedFields = ({
    metadata,
    addressType,
    endpoints = [],
    ports = [],
  }: EndpointSlice): unknown => [
    addressType,
    endpoints,
    ports,
    metadata.labels?.[SERVICE_NAME_LABEL],
    metadata.ownerReferences?.map(({ uid }) => uid),
  ];
  return isEqual(comparedFields(slice), comparedFields(wanted));
}

/** Plans the changes from `slices` to `wanted`. Ignores slices of other writers. */
export function planSlices(
  wanted: readonly EndpointSlice[],
  slices: readonly EndpointSlice[],
  writer: string,
): readonly SliceAction[] {
  const ours = slices.filter(({ metadata }) => metadata.labels?.[SLICE_WRITER_LABEL] === writer);
  const find = (all: readonly EndpointSlice[], name: string): EndpointSlice | undefined =>
    all.find(({ metadata }) => metadata.name === name);
  return [
    ...wanted.flatMap((slice): readonly SliceAction[] => {
      const known = find(ours, slice.metadata.name);
      if (known === undefined) return [{ kind: "create", slice }];
      if (isUpToDate(known, slice)) return [];
      const { resourceVersion = "" } = known.metadata;
      const metadata = { ...slice.metadata, resourceVersion };
      return [{ kind: "update", slice: { ...slice, metadata } }];
    }),
    ...ours
      .filter(({ metadata }) => find(wanted, metadata.name) === undefined)
      .map((slice): SliceAction => ({ kind: "delete", slice })),
  ];
}
