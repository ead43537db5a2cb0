// SPDX-License-Identifier: Apache-2.0
// Removes everything that an installation created, and nothing else.
import {
  NAMESPACES,
  names,
  VIRTUAL_MACHINE_INSTANCES,
  VIRTUAL_MACHINES,
  type KubeObject,
  type ResourceType,
} from "@patchbay/api";
import { AppError, isAppError } from "@patchbay/base";
import type { ListOptions, ObjectKey, Store } from "@patchbay/core/interfaces";
import { SEPARATE_TYPES, DEFINITIONS, TYPES } from "../types.ts";
import { requestPluginRemoval } from "./uninstall-plugins.ts";
import { KUBECTL_APPLIED } from "./merge-objects.ts";
import { definesOurs, isShared, describeObject } from "./foreign-objects.ts";

const OURS = `${names.PART_OF_LABEL}=${names.PRODUCT}`;
/** Objects to name in messages; the rest is counted. */
const DESCRIBED_MAX = 5;

export interface Removal {
  readonly name: string;
  /** Why it stays. Unset if it was deleted. */
  readonly blockedReason?: string;
  /** Whether `withObjects` would delete it. Unset if it was deleted. */
  readonly isRemovable?: boolean;
}

export interface Uninstallation {
  /** Whether definitions are deleted with their objects. The definition of networks stays while there are any. */
  readonly withObjects: boolean;
  readonly report: (removal: Removal) => void;
  readonly waitUntilDeleted: (type: ResourceType<KubeObject>, key: ObjectKey) => Promise<void>;
}

/** Empty if the kind is not defined. */
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

/** Only counts VMs of our own definitions: if net-agent is installed alone, VMs belong to KubeVirt. */
async function requireUnused(store: Store): Promise<void> {
  const ours = await store.list(DEFINITIONS, { labelSelector: OURS });
  if (!ours.items.some(definesOurs)) return;
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

function typeDefinedBy({ spec }: Definition): ResourceType<KubeObject> {
  const { group, versions } = spec;
  const version = versions.find(({ storage }) => storage === true)?.name ?? "v1";
  const { plural: resource, kind } = spec.names;
  return { group, version, resource, kind, namespaced: true };
}

/** Why a definition must stay: objects outside our own namespace. */
async function findReasonToKeep(store: Store, definition: Definition): Promise<string | undefined> {
  const objects = (await listAll(store, typeDefinedBy(definition))).filter(
    ({ metadata }) => metadata.namespace !== names.SERVICES_NAMESPACE,
  );
  return objects.length === 0
    ? undefined
    : `objects of it still exist: ${describeObjects(objects)}`;
}

/** Why a shared definition with our label may belong to another component: earlier versions labeled Multus' own. */
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
    (isRemovable && withObjects ? undefined : await findReasonToKeep(store, definition));
  if (blockedReason !== undefined) {
    report({ name, blockedReason, isRemovable });
    return;
  }
  await store.delete(DEFINITIONS, definition.metadata);
  await waitUntilDeleted(DEFINITIONS, definition.metadata);
  report({ name });
}

/** Webhooks and APIServices first, then pods and their dependencies; deleting the namespace deletes its contents. */
function listTypesInOrder(): readonly ResourceType<KubeObject>[] {
  const otherTypes = TYPES.filter((type) => type !== NAMESPACES && type !== DEFINITIONS);
  return [...SEPARATE_TYPES, ...otherTypes.toReversed(), NAMESPACES];
}

/** Idempotent. @throws AppError with INSTALL_IN_USE while VMs or VMIs exist, before any change; errors of the store */
export async function uninstall(store: Store, how: Uninstallation): Promise<void> {
  await requireUnused(store);
  await requestPluginRemoval(store);
  for (const type of listTypesInOrder()) {
    for (const object of await listAll(store, type, { labelSelector: OURS })) {
      await store.delete(type, object.metadata, { propagationPolicy: "Background" });
      if (type === NAMESPACES) await how.waitUntilDeleted(type, object.metadata);
      how.report({ name: describeObject(object) });
    }
  }
  const definitions = await store.list(DEFINITIONS, { labelSelector: OURS });
  for (const item of definitions.items) {
    // Its kind is known.
    const definition = { ...item, kind: DEFINITIONS.kind } as Definition;
    await removeDefinition(store, definition, how);
  }
}
