// SPDX-License-Identifier: Apache-2.0
// EndpointSlices: what stands behind a Service. Source: Kubernetes discovery.k8s.io/v1.
import { AGE } from "../../table/age.ts";
import { column } from "../kept/columns.ts";
import { keep } from "../kept/kept-kind.ts";
import type { Kind } from "../kind.ts";

/** service-net writes those of Services with a selector, and follows all; the server only keeps them. */
export const ENDPOINT_SLICE: Kind = keep({
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
