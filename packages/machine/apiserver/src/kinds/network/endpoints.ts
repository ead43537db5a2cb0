// SPDX-License-Identifier: Apache-2.0
// Endpoints: the addresses behind a service.
import { listOf, textAt, valueAt } from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import { AGE } from "../../table/age.ts";
import { type Kind, defineKind } from "../kind.ts";

function endpointsCell(object: KubeObject): string {
  const all = listOf(object["subsets"]).flatMap((subset) =>
    listOf(valueAt(subset, "addresses")).flatMap((address) =>
      listOf(valueAt(subset, "ports")).map(
        (port) => `${textAt(address, "ip")}:${String(valueAt(port, "port"))}`,
      ),
    ),
  );
  return all.length === 0 ? "<none>" : all.join(",");
}

/** Written by clients; webhooks and aggregated servers behind Services are found by them. */
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
