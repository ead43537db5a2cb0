// SPDX-License-Identifier: Apache-2.0
// Admission that is as strict as another cluster's. Sources: Kubernetes OwnerReferencesPermissionEnforcement admission,
// which OpenShift enables; KEP-4639.
import type { Admission, AdmissionRequest } from "../../admission/admission.ts";
import { type Fields, equalJson, asFields, isFields, asList, valueAt } from "../../objects/json.ts";
import type { KubeObject, OwnerReference } from "../../objects/object.ts";
import { setDefault } from "../../kinds/workload/pod-defaults.ts";
import type { AccessAttributes } from "../../auth/authorizer.ts";
import { forbiddenBecause } from "../../auth/forbidden.ts";
import { blockedOwnerUids } from "../../controllers/owner-references.ts";
import type { AdmissionDeps } from "../../extensions.ts";
import { buildManagedFields } from "./managed-fields.ts";

function listOwners(object: KubeObject | undefined): readonly OwnerReference[] {
  return object?.metadata.ownerReferences ?? [];
}

function forbid({ kind, name }: AdmissionRequest, message: string): never {
  throw forbiddenBecause({ ...kind, name }, message);
}

function isAllowed(
  { user }: AdmissionRequest,
  { authorizer }: AdmissionDeps,
  attributes: Omit<AccessAttributes, "path">,
): boolean {
  return authorizer.authorize(user, { ...attributes, path: "" }).allowed;
}

/** A user who changes an object's owners can cause its deletion, and so needs the right to delete it. */
function checkDeletionRight(request: AdmissionRequest, deps: AdmissionDeps): void {
  const { kind, operation, namespace, name, subresource } = request;
  const { group, version, resource } = kind;
  const attributes = { verb: "delete", group, version, resource, subresource, namespace, name };
  if (operation !== "CREATE" && !isAllowed(request, deps, attributes)) {
    forbid(request, "cannot set an ownerRef on a resource you can't delete");
  }
}

/** blockOwnerDeletion acts like a finalizer of the owner, and so needs the right to set finalizers. */
function checkFinalizerRight(
  request: AdmissionRequest,
  deps: AdmissionDeps,
  { apiVersion, kind, name }: OwnerReference,
): void {
  const owner = deps.registry.findByKind(apiVersion, kind);
  if (owner === undefined) {
    const message = `cannot find RESTMapping for APIVersion ${apiVersion} Kind ${kind}`;
    forbid(request, `cannot set blockOwnerDeletion in this case because ${message}`);
  }
  const { group, version, resource, namespaced } = owner;
  const namespace = namespaced ? request.namespace : "";
  const ownerAttributes = { group, version, resource, subresource: "finalizers", namespace, name };
  if (!isAllowed(request, deps, { verb: "update", ...ownerAttributes })) {
    const detail = "if an ownerReference refers to a resource you can't set finalizers on";
    forbid(request, `cannot set blockOwnerDeletion ${detail}`);
  }
}

/** @throws StatusError 403 */
export function checkOwnerRights(request: AdmissionRequest, deps: AdmissionDeps): void {
  const { object, oldObject, kind, subresource } = request;
  const isPodStatus = kind.group === "" && kind.resource === "pods" && subresource === "status";
  if (isPodStatus || equalJson(listOwners(object), listOwners(oldObject))) {
    return;
  }
  checkDeletionRight(request, deps);
  const blocked = blockedOwnerUids(oldObject);
  for (const owner of listOwners(object)) {
    if (owner.blockOwnerDeletion === true && !blocked.has(owner.uid)) {
      checkFinalizerRight(request, deps, owner);
    }
  }
}

/** Source: Kubernetes DefaultTolerationSeconds admission, which is on by default. */
const TOLERATED_TAINTS = [
  "node.kubernetes.io/not-ready",
  "node.kubernetes.io/unreachable",
] as const;
const TOLERATION_SECONDS = 300;

function addTolerations(spec: Fields): void {
  const tolerations = [...asList(spec["tolerations"])];
  const known = new Set(tolerations.map((toleration) => valueAt(toleration, "key")));
  for (const key of TOLERATED_TAINTS) {
    if (!known.has(key)) {
      const tolerationSeconds = TOLERATION_SECONDS;
      tolerations.push({ key, operator: "Exists", effect: "NoExecute", tolerationSeconds });
    }
  }
  spec["tolerations"] = tolerations;
}

function addStatusFields(status: Fields): void {
  for (const condition of asList(status["conditions"]).filter(isFields)) {
    condition["lastProbeTime"] ??= null;
    condition["lastTransitionTime"] ??= null;
  }
  for (const container of asList(status["containerStatuses"]).filter(isFields)) {
    setDefault(container, "lastState", {});
    setDefault(container, "state", {});
    setDefault(container, "imageID", "");
  }
}

function addPodFields(pod: KubeObject): void {
  addTolerations(asFields(pod["spec"]));
  addStatusFields(asFields(pod["status"]));
}

/** Sets what kube-apiserver and controllers add: tolerations, nulls, empty fields and field managers. Idempotent. */
export function addServerFields(object: KubeObject): KubeObject {
  if (object.apiVersion === "v1" && object.kind === "Pod") {
    addPodFields(object);
  }
  object.metadata.managedFields = buildManagedFields(object);
  return object;
}

/** Replaces image volumes by empty directories, like a server before Kubernetes 1.31. Returns the dropped paths. */
export function dropImageVolumes(object: KubeObject): readonly string[] {
  if (object.apiVersion !== "v1" || object.kind !== "Pod") return [];
  return asList(asFields(object["spec"])["volumes"]).flatMap((volume, index) => {
    if (!isFields(volume) || volume["image"] === undefined) return [];
    delete volume["image"];
    volume["emptyDir"] = {};
    return [`spec.volumes[${String(index)}].image`];
  });
}

export function strictAdmission(admission: Admission, deps: AdmissionDeps): Admission {
  return {
    mutate: async (request, complete) => {
      const object = await admission.mutate(request, complete);
      const dropped = dropImageVolumes(object).map((path) => `unknown field "${path}"`);
      request.warnings.push(...dropped);
      // Scales and Bindings are not stored.
      return request.bodyKind === undefined ? addServerFields(object) : object;
    },
    validate: async (request) => {
      checkOwnerRights(request, deps);
      return admission.validate(request);
    },
    admitDeletion: (request) => admission.admitDeletion(request),
  };
}

export function recordManagers(admission: Admission): Admission {
  return {
    mutate: async (request, complete) => {
      const object = await admission.mutate(request, complete);
      if (request.bodyKind === undefined)
        object.metadata.managedFields = buildManagedFields(object);
      return object;
    },
    validate: (request) => admission.validate(request),
    admitDeletion: (request) => admission.admitDeletion(request),
  };
}
