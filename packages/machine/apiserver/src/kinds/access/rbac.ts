// SPDX-License-Identifier: Apache-2.0
// Roles and their bindings.
import { pathSegmentFault } from "../../meta/names.ts";
import { listOf, textAt } from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import { AGE } from "../../table/age.ts";
import { type Column, type Kind, type KindSketch, type Strategy, defineKind } from "../kind.ts";
import {
  clusterRoleBindingCauses,
  clusterRoleCauses,
  defaultBinding,
  roleBindingCauses,
  roleCauses,
  roleRefChange,
} from "./rbac-causes.ts";

function rbac(
  sketch: Pick<KindSketch, "resource" | "kind" | "namespaced">,
  own: Partial<Strategy>,
): Kind {
  return defineKind({
    group: "rbac.authorization.k8s.io",
    version: "v1",
    ...sketch,
    strategy: { validateName: pathSegmentFault, allowsCreateOnUpdate: true, ...own },
  });
}

const ROLE: Partial<Strategy> = {
  columns: [
    { name: "Created At", type: "date", cell: (object) => object.metadata.creationTimestamp },
  ],
};

/** Names of the subjects of a kind. */
function subjectsCell(binding: KubeObject, kind: string): string {
  const subjects = listOf(binding["subjects"]).filter(
    (subject) => textAt(subject, "kind") === kind,
  );
  const names = subjects.map((subject) => {
    const home = kind === "ServiceAccount" ? `${textAt(subject, "namespace")}/` : "";
    return `${home}${textAt(subject, "name")}`;
  });
  return names.join(", ");
}

function subjectsColumn(name: string, kind: string): Column {
  return { name, type: "string", priority: 1, cell: (binding) => subjectsCell(binding, kind) };
}

const BINDING: Partial<Strategy> = {
  applyDefaults: defaultBinding,
  validateUpdate: roleRefChange,
  columns: [
    {
      name: "Role",
      type: "string",
      cell: (object) => `${textAt(object, "roleRef", "kind")}/${textAt(object, "roleRef", "name")}`,
    },
    AGE,
    subjectsColumn("Users", "User"),
    subjectsColumn("Groups", "Group"),
    subjectsColumn("ServiceAccounts", "ServiceAccount"),
  ],
};

/** Roles and bindings, of a namespace and of the cluster. */
export const RBAC_KINDS: readonly Kind[] = [
  rbac({ resource: "roles", kind: "Role" }, { ...ROLE, validate: roleCauses }),
  rbac(
    { resource: "rolebindings", kind: "RoleBinding" },
    { ...BINDING, validate: roleBindingCauses },
  ),
  rbac(
    { resource: "clusterroles", kind: "ClusterRole", namespaced: false },
    { ...ROLE, validate: clusterRoleCauses },
  ),
  rbac(
    { resource: "clusterrolebindings", kind: "ClusterRoleBinding", namespaced: false },
    { ...BINDING, validate: clusterRoleBindingCauses },
  ),
];
