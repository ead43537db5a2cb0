// SPDX-License-Identifier: Apache-2.0
// For tests: evaluates roles and bindings, to find the rights of an account.
import type { KubeObject } from "@patchbay/api";
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
  /** As the API server names the user or the group, for example `system:serviceaccount:patchbay:virt-api`. */
  readonly user: string;
  readonly verb: string;
  /** As kubectl writes it, for example `virtualmachines.kubevirt.io/status`. */
  readonly resource: string;
  /** Unset for all namespaces. */
  readonly namespace?: string;
  /** Unset for all objects. */
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

function resourceText(group: string, resource: string): string {
  const [name = "", ...subresource] = resource.split("/");
  return [group === "" ? name : `${name}.${group}`, ...subresource].join("/");
}

function rightsOfRule(user: string, rule: Rule): readonly Right[] {
  const { apiGroups = [], resources = [], verbs, resourceNames } = rule;
  const targets = resourceNames?.map((name) => ({ name })) ?? [{}];
  return apiGroups.flatMap((group) =>
    resources.flatMap((resource) =>
      verbs.flatMap((verb) =>
        targets.map((target) => ({
          user,
          verb,
          resource: resourceText(group, resource),
          ...target,
        })),
      ),
    ),
  );
}

/** What the bindings among the objects grant by the roles among them, verb by verb. */
export function listRights(objects: readonly KubeObject[]): readonly Right[] {
  const roles = objects.filter(isRole);
  return objects.filter(isBinding).flatMap(({ metadata: { namespace }, roleRef, subjects }) => {
    const bound = roles.filter(
      ({ kind, metadata }) => kind === roleRef.kind && metadata.name === roleRef.name,
    );
    const where = namespace === undefined ? {} : { namespace };
    return subjects.flatMap((subject) =>
      bound
        .flatMap(({ rules }) => rules.flatMap((rule) => rightsOfRule(findUser(subject), rule)))
        .map((right) => ({ ...right, ...where })),
    );
  });
}
