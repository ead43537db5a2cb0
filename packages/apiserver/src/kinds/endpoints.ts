// SPDX-License-Identifier: Apache-2.0
// Endpoints: the addresses behind a service.
import { listOf, textAt, valueAt } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import { AGE } from "../table/age.ts";
import { type Kind, defineKind } from "./kind.ts";
import { FREE, INTEGER, TEXT, listOfObjects, objectShape } from "./shapes.ts";

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

/** Endpoints. */
export const ENDPOINTS: Kind = defineKind({
  group: "",
  version: "v1",
  resource: "endpoints",
  kind: "Endpoints",
  listKind: "EndpointsList",
  shortNames: ["ep"],
  strategy: {
    columns: [{ name: "Endpoints", type: "string", cell: endpointsCell }, AGE],
    schema: objectShape(
      {
        subsets: listOfObjects({
          addresses: listOfObjects({ ip: TEXT, nodeName: TEXT, targetRef: FREE }),
          notReadyAddresses: listOfObjects({ ip: TEXT }),
          ports: listOfObjects({ name: TEXT, port: INTEGER, protocol: TEXT }),
        }),
      },
      "Endpoints is a collection of addresses that implement a service.",
    ),
  },
});
