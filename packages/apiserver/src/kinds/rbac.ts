// SPDX-License-Identifier: Apache-2.0
// Roles and their bindings.
import type { Cause } from "../http/status.ts";
import { invalidValue } from "../meta/causes.ts";
import { pathSegmentFault } from "../meta/names.ts";
import { equalJson, textAt } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import { AGE } from "../table/age.ts";
import { type Kind, type KindSketch, type Strategy, defineKind } from "./kind.ts";

function rbac(
  sketch: Pick<KindSketch, "resource" | "kind" | "namespaced">,
  own: Partial<Strategy>,
): Kind {
  return defineKind({
    group: "rbac.authorization.k8s.io",
    version: "v1",
    ...sketch,
    strategy: { validateName: pathSegmentFault, ...own },
  });
}

function roleRefChange(object: KubeObject, current: KubeObject): Cause[] {
  return equalJson(object["roleRef"], current["roleRef"])
    ? []
    : [invalidValue("roleRef", object["roleRef"], "cannot change roleRef")];
}

const ROLE: Partial<Strategy> = {
  columns: [
    { name: "Created At", type: "date", cell: (object) => object.metadata.creationTimestamp },
  ],
};

const BINDING: Partial<Strategy> = {
  validateUpdate: roleRefChange,
  columns: [
    {
      name: "Role",
      type: "string",
      cell: (object) => `${textAt(object, "roleRef", "kind")}/${textAt(object, "roleRef", "name")}`,
    },
    AGE,
  ],
};

/** Roles and bindings, of a namespace and of the cluster. */
export const RBAC_KINDS: readonly Kind[] = [
  rbac({ resource: "roles", kind: "Role" }, ROLE),
  rbac({ resource: "rolebindings", kind: "RoleBinding" }, BINDING),
  rbac({ resource: "clusterroles", kind: "ClusterRole", namespaced: false }, ROLE),
  rbac({ resource: "clusterrolebindings", kind: "ClusterRoleBinding", namespaced: false }, BINDING),
];
