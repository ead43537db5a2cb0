// SPDX-License-Identifier: Apache-2.0
// Endpoints and EndpointSlices. Source: Kubernetes core/v1 and discovery.k8s.io/v1.
import { asList, textAt, valueAt } from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import { AGE } from "../../table/age.ts";
import { type Kind, defineKind } from "../kind.ts";
import { column, defineStoreOnlyKind } from "../store-only/store-only-kind.ts";

function endpointsCell(object: KubeObject): string {
  const endpoints = asList(object["subsets"]).flatMap((subset) =>
    asList(valueAt(subset, "addresses")).flatMap((address) =>
      asList(valueAt(subset, "ports")).map(
        (port) => `${textAt(address, "ip")}:${String(valueAt(port, "port"))}`,
      ),
    ),
  );
  return endpoints.length === 0 ? "<none>" : endpoints.join(",");
}

export const ENDPOINTS: Kind = defineKind({
  group: "",
  version: "v1",
  resource: "endpoints",
  kind: "Endpoints",
  listKind: "EndpointsList",
  shortNames: ["ep"],
  strategy: {
    columns: [{ name: "Endpoints", type: "string", cell: endpointsCell }, AGE],
  },
});

/** Kind EndpointSlice. service-net writes the slices of Services with a selector, and forwards to the endpoints of all slices. */
export const ENDPOINT_SLICE: Kind = defineStoreOnlyKind({
  group: "discovery.k8s.io",
  version: "v1",
  resource: "endpointslices",
  kind: "EndpointSlice",
  columns: [
    column("AddressType", ".addressType"),
    column("Ports", ".ports[*].port"),
    column("Endpoints", ".endpoints[*].addresses[0]"),
    AGE,
  ],
});
