// SPDX-License-Identifier: Apache-2.0
// Who may name owners, and let them wait? Source: Kubernetes OwnerReferencesPermissionEnforcement admission, which is off by default and on in OpenShift.
import type { AdmissionQuestion } from "../admission/admission.ts";
import type { AccessAttributes, Authorizer } from "../auth/authorizer.ts";
import { forbiddenBecause } from "../auth/forbidden.ts";
import { blockedBy } from "../controllers/owner-references.ts";
import type { Registry } from "../kinds/registry.ts";
import { equalJson } from "../objects/json.ts";
import type { KubeObject, OwnerReference } from "../objects/object.ts";

/** Who knows roles and kinds. */
export interface OwnerRightsDeps {
  readonly authorizer: Pick<Authorizer, "authorize">;
  readonly registry: Pick<Registry, "findByKind">;
}

function ownersIn(object: KubeObject | undefined): readonly OwnerReference[] {
  return object?.metadata.ownerReferences ?? [];
}

function refuse({ kind, name }: AdmissionQuestion, why: string): never {
  throw forbiddenBecause({ ...kind, name }, why);
}

function may(
  { user }: AdmissionQuestion,
  { authorizer }: OwnerRightsDeps,
  asked: Omit<AccessAttributes, "path">,
): boolean {
  return authorizer.authorize(user, { ...asked, path: "" }).allowed;
}

/** Whoever changes the owners of what is there could let it be deleted, and so must be able to delete it. */
function checkOwned(question: AdmissionQuestion, deps: OwnerRightsDeps): void {
  const { kind, operation, namespace, name, subresource } = question;
  const { group, version, resource } = kind;
  const asked = { verb: "delete", group, version, resource, subresource, namespace, name };
  if (operation !== "CREATE" && !may(question, deps, asked)) {
    refuse(question, "cannot set an ownerRef on a resource you can't delete");
  }
}

/** Whoever lets an owner wait acts as one of its finalizers does, and so must be able to set these. */
function checkOwner(
  question: AdmissionQuestion,
  deps: OwnerRightsDeps,
  { apiVersion, kind, name }: OwnerReference,
): void {
  const owner = deps.registry.findByKind(apiVersion, kind);
  if (owner === undefined) {
    const why = `cannot find RESTMapping for APIVersion ${apiVersion} Kind ${kind}`;
    refuse(question, `cannot set blockOwnerDeletion in this case because ${why}`);
  }
  const { group, version, resource, namespaced } = owner;
  const namespace = namespaced ? question.namespace : "";
  const of = { group, version, resource, subresource: "finalizers", namespace, name };
  if (!may(question, deps, { verb: "update", ...of })) {
    const what = "if an ownerReference refers to a resource you can't set finalizers on";
    refuse(question, `cannot set blockOwnerDeletion ${what}`);
  }
}

/** Throws a StatusError 403 where the write names an owner, or lets one wait, and its user may not. */
export function checkOwnerRights(question: AdmissionQuestion, deps: OwnerRightsDeps): void {
  const { object, oldObject, kind, subresource } = question;
  const isPodStatus = kind.group === "" && kind.resource === "pods" && subresource === "status";
  if (isPodStatus || equalJson(ownersIn(object), ownersIn(oldObject))) {
    return;
  }
  checkOwned(question, deps);
  const blocked = blockedBy(oldObject);
  for (const owner of ownersIn(object)) {
    if (owner.blockOwnerDeletion === true && !blocked.has(owner.uid)) {
      checkOwner(question, deps, owner);
    }
  }
}
