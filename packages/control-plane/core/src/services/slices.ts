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
import { firstByKey } from "@patchbay/api/values";
import { isEqual } from "@patchbay/base";

interface SliceAction {
  readonly kind: "create" | "update" | "delete";
  readonly slice: EndpointSlice;
}

/** Endpoint with its address type and ports. Endpoints with equal address type and ports share a slice. */
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

type SliceContent = Pick<EndpointSlice, "endpoints" | "ports">;

export function findServiceKey({ metadata }: EndpointSlice): string | undefined {
  const name = metadata.labels?.[SERVICE_NAME_LABEL];
  return name === undefined ? undefined : `${metadata.namespace ?? ""}/${name}`;
}

function buildSlice(
  { service, writer }: SliceOwner,
  sliceName: string,
  content: SliceContent & Pick<EndpointSlice, "addressType">,
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
  return Array.from({ length: count }, (_unused, index) =>
    endpoints.slice(index * SLICE_ENDPOINTS_MAX, (index + 1) * SLICE_ENDPOINTS_MAX),
  );
}

function groupContents(parts: readonly ServicePart[]): readonly SliceContent[] {
  const groups = Map.groupBy(parts, ({ ports }) => JSON.stringify(ports));
  return [...groups]
    .sort(([leftKey], [rightKey]) => (leftKey < rightKey ? -1 : 1))
    .flatMap(([, group]) => {
      const ports = group[0]?.ports ?? [];
      return splitEndpoints(group.map(({ endpoint }) => endpoint)).map((endpoints) => ({
        ports,
        endpoints,
      }));
    });
}

/** Address families and the infixes of their slice names. A slice contains one family. Source: Kubernetes validation of EndpointSlice. */
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
      buildSlice(owner, `${owner.stem}${infix}-${String(index)}`, { addressType, ...content }),
    ),
  );
}

function isUpToDate(slice: EndpointSlice, wantedSlice: EndpointSlice): boolean {
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
  return isEqual(comparedFields(slice), comparedFields(wantedSlice));
}

/** Plans the changes from `slices` to `wantedSlices`. Ignores slices of other controllers. */
export function planSlices(
  wantedSlices: readonly EndpointSlice[],
  slices: readonly EndpointSlice[],
  writer: string,
): readonly SliceAction[] {
  const ownSlices = slices.filter(
    ({ metadata }) => metadata.labels?.[SLICE_WRITER_LABEL] === writer,
  );
  const ownByName = firstByKey(ownSlices, ({ metadata }) => metadata.name);
  const wantedNames = new Set(wantedSlices.map(({ metadata }) => metadata.name));
  return [
    ...wantedSlices.flatMap((slice): readonly SliceAction[] => {
      const existingSlice = ownByName.get(slice.metadata.name);
      if (existingSlice === undefined) return [{ kind: "create", slice }];
      if (isUpToDate(existingSlice, slice)) return [];
      const { resourceVersion = "" } = existingSlice.metadata;
      const metadata = { ...slice.metadata, resourceVersion };
      return [{ kind: "update", slice: { ...slice, metadata } }];
    }),
    ...ownSlices
      .filter(({ metadata }) => !wantedNames.has(metadata.name))
      .map((slice): SliceAction => ({ kind: "delete", slice })),
  ];
}
