// SPDX-License-Identifier: Apache-2.0
import {
  type StatusError,
  alreadyExists,
  badRequest,
  forbidden,
  notFound,
} from "../meta/status.ts";
import { toWriteOptions } from "../admission/admission.ts";
import { forbiddenTo } from "../auth/forbidden.ts";
import { NAMESPACE } from "../kinds/cluster/namespace.ts";
import { type Kind, bucketOf } from "../kinds/kind.ts";
import { validateMeta } from "../meta/metadata.ts";
import type { KubeObject } from "../objects/object.ts";
import { rfc3339 } from "../objects/time.ts";
import type { Store } from "../storage/store.ts";
import { type Call, type Reply, toResourceRef, toAddress, isDryRun, queueIfHeavy } from "./call.ts";
import { claimUniqueValues } from "./claim.ts";
import type { VerbDeps } from "./deps.ts";
import { checkLimits, refuseInvalid, toObject } from "./decode.ts";
import { readRequestObject } from "./options/field-validation.ts";
import { toStorage } from "./conversion.ts";

/** Generated names have up to 63 characters, of which 5 are random. Source: Kubernetes names.SimpleNameGenerator. */
const GENERATED_BASE_MAX_LENGTH = 58;

function checkNamespaceField(call: Call, object: KubeObject): void {
  const namespace = object.metadata.namespace ?? "";
  if (call.kind.namespaced && namespace !== "" && namespace !== call.namespace) {
    throw badRequest(
      "the namespace of the provided object does not match the namespace sent on the request",
    );
  }
}

function resetMeta(call: Call, object: KubeObject): void {
  const { metadata } = object;
  for (const key of [
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "resourceVersion",
    "generation",
    "uid",
    "creationTimestamp",
  ]) {
    Reflect.deleteProperty(metadata, key);
  }
  if (call.kind.namespaced) {
    metadata.namespace = call.namespace;
  } else {
    delete metadata.namespace;
  }
}

/** Sets a generated name, uid, creationTimestamp and generation. Runs after the mutating webhooks, which do not receive these fields. */
function setServerMeta(call: Call, deps: VerbDeps, object: KubeObject): void {
  const { metadata } = object;
  if (metadata.name === "" && metadata.generateName !== undefined) {
    metadata.name = `${metadata.generateName.slice(0, GENERATED_BASE_MAX_LENGTH)}${deps.random.suffix()}`;
  }
  metadata.uid = deps.random.uid();
  metadata.creationTimestamp = rfc3339(deps.clock.now());
  if (call.kind.strategy.hasGeneration) {
    metadata.generation = 1;
  }
}

function namespaceTerminating(kind: Kind, object: KubeObject): StatusError {
  const namespace = object.metadata.namespace ?? "";
  const message = `unable to create new content in namespace ${namespace} because it is being terminated`;
  const error = forbidden(toResourceRef(kind), object.metadata.name, message);
  const cause = {
    reason: "NamespaceTerminating",
    message: `namespace ${namespace} is being terminated`,
    field: "metadata.namespace",
  } as const;
  Object.assign(error.details ?? {}, { causes: [cause] });
  return error;
}

export function checkNamespace(kind: Kind, object: KubeObject, store: Pick<Store, "find">): void {
  if (!kind.namespaced) {
    return;
  }
  const name = object.metadata.namespace ?? "";
  const namespace = store.find({ bucket: bucketOf(NAMESPACE), namespace: "", name });
  if (namespace === undefined) {
    throw notFound(toResourceRef(NAMESPACE), name);
  }
  if (namespace.view().metadata.deletionTimestamp !== undefined) {
    throw namespaceTerminating(kind, object);
  }
}

function applyDefaults(kind: Kind, object: KubeObject): KubeObject {
  kind.strategy.applyDefaults?.(object);
  return object;
}

function dropStatus(kind: Kind, object: KubeObject): void {
  const { hasStatus, acceptsStatusOnCreate } = kind.strategy;
  if (hasStatus && acceptsStatusOnCreate !== true) {
    Reflect.deleteProperty(object, "status");
  }
}

function validateNew(kind: Kind, object: KubeObject): void {
  refuseInvalid(kind, object.metadata.name, [
    ...validateMeta(kind, object),
    ...(kind.strategy.validate?.(object) ?? []),
  ]);
}

async function createDecoded(call: Call, deps: VerbDeps, object: KubeObject): Promise<KubeObject> {
  const { kind } = call;
  const dryRun = isDryRun(call.query);
  checkLimits(call, object);
  resetMeta(call, object);
  checkNamespace(kind, object, deps.store);
  applyDefaults(kind, object);
  const request = {
    kind,
    subresource: "",
    operation: "CREATE",
    namespace: call.namespace,
    name: object.metadata.name,
    oldObject: undefined,
    options: toWriteOptions("CreateOptions", call.query),
    user: call.user,
    dryRun,
    warnings: call.warnings,
  } as const;
  await queueIfHeavy(call, deps, call.body.text.length);
  const admittedObject = await deps.admission.mutate({ ...request, object }, (changedObject) =>
    applyDefaults(kind, toObject(kind, changedObject)),
  );
  await queueIfHeavy(call, deps, call.body.text.length);
  resetMeta(call, admittedObject);
  setServerMeta(call, deps, admittedObject);
  dropStatus(kind, admittedObject);
  kind.strategy.prepareCreate?.(admittedObject);
  validateNew(kind, admittedObject);
  await queueIfHeavy(call, deps, call.body.text.length);
  await deps.admission.validate({ ...request, object: admittedObject });
  const address = toAddress({
    kind,
    namespace: call.namespace,
    name: admittedObject.metadata.name,
  });
  return deps.store.write((transaction) => {
    if (transaction.find(address) !== undefined) {
      throw alreadyExists(toResourceRef(kind), address.name);
    }
    checkNamespace(kind, admittedObject, transaction);
    claimUniqueValues({ kind, address, object: admittedObject }, transaction, deps);
    const storedObject = toStorage(kind, admittedObject);
    deps.resourceQuotas.check(transaction, { kind, address, object: storedObject });
    if (dryRun) {
      return admittedObject;
    }
    const writtenObject = transaction.put(address, storedObject);
    admittedObject.metadata.resourceVersion = writtenObject.metadata.resourceVersion ?? "";
    return admittedObject;
  });
}

export async function createObject(call: Call, deps: VerbDeps): Promise<Reply> {
  const object = await readRequestObject(call, deps);
  checkNamespaceField(call, object);
  if ((object.metadata.resourceVersion ?? "") !== "") {
    throw badRequest("resourceVersion should not be set on objects to be created");
  }
  const createdObject = await createDecoded(call, deps, object);
  return { type: "object", code: 201, object: createdObject };
}

/** Throws a StatusError 403 if the user lacks the verb `create`, which is also required for a PUT that creates the object. */
function checkCreateRight(call: Call, deps: VerbDeps): void {
  const { user, kind, namespace, name } = call;
  const { group, version, resource } = kind;
  const resourceAttributes = {
    group,
    version,
    resource,
    subresource: "",
    namespace,
    name,
    path: "",
  };
  const attributes = { ...resourceAttributes, verb: "create" };
  const { allowed, reason } = deps.authorizer.authorize(user, attributes);
  if (!allowed) {
    throw forbiddenTo(user, attributes, reason);
  }
}

export async function createByUpdate(
  call: Call,
  deps: VerbDeps,
  object: KubeObject,
): Promise<Reply> {
  checkCreateRight(call, deps);
  return { type: "object", code: 201, object: await createDecoded(call, deps, object) };
}
