// SPDX-License-Identifier: Apache-2.0
// APIServices: which server has a group version.
import { pathSegmentFault } from "../../meta/names.ts";
import { isFields, listOf, textAt, valueAt } from "../../objects/json.ts";
import { AGE } from "../../table/age.ts";
import { apiServiceCauses } from "./api-service-causes.ts";
import { type Kind, defineKind } from "../kind.ts";

/** Each names a group version and the server that has it; none: this one. */
export const API_SERVICE: Kind = defineKind({
  group: "apiregistration.k8s.io",
  version: "v1",
  resource: "apiservices",
  kind: "APIService",
  namespaced: false,
  categories: ["api-extensions"],
  strategy: {
    hasStatus: true,
    validateName: pathSegmentFault,
    applyDefaults: (object) => {
      const service = valueAt(object, "spec", "service");
      if (isFields(service)) {
        service["port"] ??= 443;
      }
    },
    validate: apiServiceCauses,
    columns: [
      {
        name: "Service",
        type: "string",
        cell: (object) =>
          textAt(object, "spec", "service", "name") === ""
            ? "Local"
            : `${textAt(object, "spec", "service", "namespace")}/${textAt(object, "spec", "service", "name")}`,
      },
      {
        name: "Available",
        type: "string",
        cell: (object) => {
          const available = listOf(valueAt(object, "status", "conditions")).find(
            (condition) => textAt(condition, "type") === "Available",
          );
          const status = textAt(available, "status");
          return status === "True"
            ? "True"
            : `${status || "Unknown"} (${textAt(available, "reason")})`;
        },
      },
      AGE,
    ],
  },
});
