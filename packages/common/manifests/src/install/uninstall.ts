// SPDX-License-Identifier: Apache-2.0
// Removes only the objects that an installation created.
import {
  NAMESPACES,
  names,
  VIRTUAL_MACHINE_INSTANCES,
  VIRTUAL_MACHINES,
  type ResourceType,
} from "@patchbay/api";
import type { KubeObject } from "@patchbay/api/kubernetes";
import { AppError, isAppError } from "@patchbay/base";
import type { ListOptions, ObjectKey, Store } from "@patchbay/core/interfaces";
import { SEPARATE_TYPES, DEFINITIONS, TYPES } from "../types.ts";
import { requestPluginRemoval } from "./uninstall-plugins.ts";
import { KUBECTL_APPLIED } from "./merge-objects.ts";
import { definesExclusiveKind, isShared, describeObject } from "./foreign-objects.ts";

const PATCHBAY_SELECTOR = `${names.PART_OF_LABEL}=${names.PRODUCT}`;
/** Maximum number of objects that a message names. For further objects, the message states only how many there are. */
const DESCRIBED_MAX = 5;

export interface Removal {
  readonly name: string;
  /** Reason why the object was not deleted; unset if the object was deleted. */
  readonly blockedReason?: string;
  /** Whether an uninstallation with `withObjects` would have deleted the object; unset if the object was deleted. */
  readonly isRemovable?: boolean;
}

export interface Uninstallation {
  /** Whether CRDs are deleted even if objects of their kinds exist. Existing NetworkAttachmentDefinitions always protect their CRD. */
  readonly withObjects: boolean;
  readonly report: (removal: Removal) => void;
  readonly waitUntilDeleted: (type: ResourceType<KubeObject>, key: ObjectKey) => Promise<void>;
}

/** Lists the objects of a kind. Returns an empty list if the API server does not know the kind. */
async function listAll(
  store: Store,
  type: ResourceType<KubeObject>,
  options: ListOptions = {},
): Promise<readonly KubeObject[]> {
  try {
    return (await store.list(type, options)).items.map((object) => ({
      ...object,
      kind: type.kind,
    }));
  } catch (error) {
    if (isAppError(error, "KUBE_NOT_FOUND")) return [];
    throw error;
  }
}

function describeObjects(objects: readonly KubeObject[]): string {
  const first = objects.slice(0, DESCRIBED_MAX).map(describeObject).join(", ");
  const more = objects.length - DESCRIBED_MAX;
  return more > 0 ? `${first} and ${String(more)} more` : first;
}

/**
 * Rejects the uninstallation while VMs or VMIs exist. Accepts it if Patchbay owns no CRD of KubeVirt's API groups, because
 * the VMs then belong to KubeVirt.
 */
async function requireUnused(store: Store): Promise<void> {
  const ours = await store.list(DEFINITIONS, { labelSelector: PATCHBAY_SELECTOR });
  if (!ours.items.some(definesExclusiveKind)) return;
  const machines = [
    ...(await listAll(store, VIRTUAL_MACHINES)),
    ...(await listAll(store, VIRTUAL_MACHINE_INSTANCES)),
  ];
  if (machines.length > 0)
    throw new AppError("INSTALL_IN_USE", { objects: describeObjects(machines) });
}

interface Definition extends KubeObject {
  readonly spec: {
    readonly group: string;
    readonly names: { readonly plural: string; readonly kind: string };
    readonly versions: readonly { readonly name: string; readonly storage?: boolean }[];
  };
}

function toDefinedType({ spec }: Definition): ResourceType<KubeObject> {
  const { group, versions } = spec;
  const version = versions.find(({ storage }) => storage === true)?.name ?? "v1";
  const { plural: resource, kind } = spec.names;
  return { group, version, resource, kind, namespaced: true };
}

/** Returns a reason to keep the CRD if objects of its kind exist outside of Patchbay's namespace. */
async function findObjectsReason(
  store: Store,
  definition: Definition,
): Promise<string | undefined> {
  const objects = (await listAll(store, toDefinedType(definition))).filter(
    ({ metadata }) => metadata.namespace !== names.SERVICES_NAMESPACE,
  );
  return objects.length === 0
    ? undefined
    : `objects of it still exist: ${describeObjects(objects)}`;
}

/** Returns a reason not to delete a CRD that kubectl applied. The Patchbay label proves nothing: old versions set it on Multus' CRD too. */
function findSharedReason({ metadata }: Definition): string | undefined {
  return metadata.annotations?.[KUBECTL_APPLIED] === undefined
    ? undefined
    : "kubectl applied it, so another component may need it";
}

async function removeDefinition(
  store: Store,
  definition: Definition,
  { withObjects, report, waitUntilDeleted }: Uninstallation,
): Promise<void> {
  const name = describeObject(definition);
  const isRemovable = !isShared(definition);
  const blockedReason =
    (isRemovable ? undefined : findSharedReason(definition)) ??
    (isRemovable && withObjects ? undefined : await findObjectsReason(store, definition));
  if (blockedReason !== undefined) {
    report({ name, blockedReason, isRemovable });
    return;
  }
  await store.delete(DEFINITIONS, definition.metadata);
  await waitUntilDeleted(DEFINITIONS, definition.metadata);
  report({ name });
}

/** Lists the types to delete in order: admission policies, other types in reverse order of installation, then namespaces. Omits CRDs. */
function listTypesInOrder(): readonly ResourceType<KubeObject>[] {
  const otherTypes = TYPES.filter((type) => type !== NAMESPACES && type !== DEFINITIONS);
  return [...SEPARATE_TYPES, ...otherTypes.toReversed(), NAMESPACES];
}

/** @throws AppError with INSTALL_IN_USE before any change, or with the code of a failed request */
export async function prepareUninstall(store: Store): Promise<void> {
  await requireUnused(store);
  await requestPluginRemoval(store);
}

export async function uninstall(store: Store, options: Uninstallation): Promise<void> {
  await prepareUninstall(store);
  for (const type of listTypesInOrder()) {
    for (const object of await listAll(store, type, { labelSelector: PATCHBAY_SELECTOR })) {
      await store.delete(type, object.metadata, { propagationPolicy: "Background" });
      if (type === NAMESPACES) await options.waitUntilDeleted(type, object.metadata);
      options.report({ name: describeObject(object) });
    }
  }
  const definitions = await store.list(DEFINITIONS, { labelSelector: PATCHBAY_SELECTOR });
  for (const item of definitions.items) {
    // The cast is safe, because the list contains only CRDs.
    const definition = { ...item, kind: DEFINITIONS.kind } as Definition;
    await removeDefinition(store, definition, options);
  }
}
