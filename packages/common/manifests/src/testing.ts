// SPDX-License-Identifier: Apache-2.0
// Evaluates roles and bindings, for tests of accounts' rights.
import type { KubeObject } from "@patchbay/api/kubernetes";
import { isRole, type Rule } from "./types.ts";

interface Binding extends KubeObject {
  readonly roleRef: { readonly kind: string; readonly name: string };
  readonly subjects: readonly {
    readonly kind: string;
    readonly name: string;
    readonly namespace?: string;
  }[];
}

export interface Right {
  /** Name of the user or group at the API server, for example `system:serviceaccount:patchbay:virt-api`. */
  readonly user: string;
  readonly verb: string;
  /** Resource in kubectl's notation, for example `virtualmachines.kubevirt.io/status`. */
  readonly resource: string;
  /** Namespace of the objects; unset for all namespaces. */
  readonly namespace?: string;
  /** Name of the object; unset for all objects. */
  readonly name?: string;
}

function isBinding(object: KubeObject): object is Binding {
  return object.kind === "ClusterRoleBinding" || object.kind === "RoleBinding";
}

function findUser(subject: Binding["subjects"][number]): string {
  return subject.kind === "ServiceAccount"
    ? `system:serviceaccount:${subject.namespace ?? ""}:${subject.name}`
    : subject.name;
}

function printResource(group: string, resource: string): string {
  const [name = "", ...subresource] = resource.split("/");
  return [group === "" ? name : `${name}.${group}`, ...subresource].join("/");
}

function listRuleRights(user: string, rule: Rule): readonly Right[] {
  const { apiGroups = [], resources = [], verbs, resourceNames } = rule;
  const targets = resourceNames?.map((name) => ({ name })) ?? [{}];
  return apiGroups.flatMap((group) =>
    resources.flatMap((resource) =>
      verbs.flatMap((verb) =>
        targets.map((target) => ({
          user,
          verb,
          resource: printResource(group, resource),
          ...target,
        })),
      ),
    ),
  );
}

/** Lists the rights that roles and bindings among the objects grant. Each right is for one user, verb, resource and object name. */
export function listRights(objects: readonly KubeObject[]): readonly Right[] {
  const roles = objects.filter(isRole);
  return objects.filter(isBinding).flatMap(({ metadata: { namespace }, roleRef, subjects }) => {
    const boundRoles = roles.filter(
      ({ kind, metadata }) => kind === roleRef.kind && metadata.name === roleRef.name,
    );
    const scope = namespace === undefined ? {} : { namespace };
    return subjects.flatMap((subject) =>
      boundRoles
        .flatMap(({ rules }) => rules.flatMap((rule) => listRuleRights(findUser(subject), rule)))
        .map((right) => ({ ...right, ...scope })),
    );
  });
}
