// SPDX-License-Identifier: Apache-2.0
import { labelFault } from "../../meta/names.ts";
import { asFields, asList, textAt, valueAt } from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import { AGE } from "../../table/age.ts";
import { ALL_VERBS, type Kind, defineKind } from "../kind.ts";

const NAME_LABEL = "kubernetes.io/metadata.name";

function labelWithName(namespace: KubeObject): void {
  namespace.metadata.labels = {
    ...namespace.metadata.labels,
    [NAME_LABEL]: namespace.metadata.name,
  };
}

/** Kind Namespace. A spec finalizer delays the removal of a namespace until the namespace is empty. */
export const NAMESPACE: Kind = defineKind({
  group: "",
  version: "v1",
  resource: "namespaces",
  kind: "Namespace",
  namespaced: false,
  shortNames: ["ns"],
  verbs: ALL_VERBS.filter((verb) => verb !== "deletecollection"),
  subresources: [{ name: "finalize", verbs: ["update"] }],
  strategy: {
    hasStatus: true,
    validateName: labelFault,
    prepareCreate: (namespace) => {
      labelWithName(namespace);
      const finalizers = asList(valueAt(namespace, "spec", "finalizers"));
      const hasFinalizer = finalizers.includes("kubernetes");
      namespace["spec"] = { finalizers: hasFinalizer ? finalizers : [...finalizers, "kubernetes"] };
      namespace["status"] = { phase: "Active" };
    },
    beginDeletion: (namespace) => {
      namespace["status"] = { ...asFields(namespace["status"]), phase: "Terminating" };
      delete namespace.metadata.deletionGracePeriodSeconds;
    },
    prepareUpdate: (namespace, current) => {
      labelWithName(namespace);
      namespace["spec"] = asFields(current["spec"]);
    },
    selectableFields: { "status.phase": (namespace) => textAt(namespace, "status", "phase") },
    columns: [
      { name: "Status", type: "string", cell: (object) => textAt(object, "status", "phase") },
      AGE,
    ],
  },
});
