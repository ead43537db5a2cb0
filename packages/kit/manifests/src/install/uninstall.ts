// SPDX-License-Identifier: Apache-2.0
// How does everything go that an installation has made, and nothing else?
import {
  NAMESPACES,
  names,
  VIRTUAL_MACHINE_INSTANCES,
  VIRTUAL_MACHINES,
  type KubeObject,
  type ResourceType,
} from "@patchbay/api";
import { AppError, isAppError } from "@patchbay/core";
import type { ListOptions, ObjectKey, Store } from "@patchbay/core/ports";
import { BESIDE, DEFINITIONS, TYPES } from "../types.ts";
import { leaveRuntimes } from "./leave-runtimes.ts";
import { KUBECTL_APPLIED } from "./merge-workload.ts";
import { definesOurs, isShared, nameOf } from "./strangers.ts";

const OURS = `${names.PART_OF_LABEL}=${names.PRODUCT}`;
/** As many are named; the rest is counted. */
const NAMED_MAX = 5;

/** What became of an object. */
export interface Removal {
  readonly name: string;
  /** Why it stays. Unset if it was deleted. */
  readonly kept?: string;
  /** Whether `withObjects` would delete it. Unset if it was deleted. */
  readonly isRemovable?: boolean;
}

/** How to uninstall. */
export interface Uninstallation {
  /** Whether definitions are deleted with their objects. The definition of networks stays while it has any. */
  readonly withObjects: boolean;
  readonly tell: (removal: Removal) => void;
  /** Resolves when the object is gone. */
  readonly untilGone: (type: ResourceType<KubeObject>, key: ObjectKey) => Promise<void>;
}

/** A kind that is not defined has no objects. */
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

function named(objects: readonly KubeObject[]): string {
  const first = objects.slice(0, NAMED_MAX).map(nameOf).join(", ");
  const more = objects.length - NAMED_MAX;
  return more > 0 ? `${first} and ${String(more)} more` : first;
}

/** VMs of another are no reason to stay: where net-agent is installed alone, they are KubeVirt's. */
async function refuseWhileInUse(store: Store): Promise<void> {
  const ours = await store.list(DEFINITIONS, { labelSelector: OURS });
  if (!ours.items.some(definesOurs)) return;
  const machines = [
    ...(await listAll(store, VIRTUAL_MACHINES)),
    ...(await listAll(store, VIRTUAL_MACHINE_INSTANCES)),
  ];
  if (machines.length > 0) throw new AppError("INSTALL_IN_USE", { objects: named(machines) });
}

/** A definition, as far as it says which kind it defines. */
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

/** Why a definition must stay: objects that people have made. Those of our own namespace are ours. */
async function reasonToKeep(store: Store, definition: Definition): Promise<string | undefined> {
  const objects = (await listAll(store, typeDefinedBy(definition))).filter(
    ({ metadata }) => metadata.namespace !== names.SERVICES_NAMESPACE,
  );
  return objects.length === 0 ? undefined : `objects of it still exist: ${named(objects)}`;
}

/** Why a shared definition with our mark may still be another component's: an `apply` of former versions marked Multus' own. */
function reasonOfOthers({ metadata }: Definition): string | undefined {
  return metadata.annotations?.[KUBECTL_APPLIED] === undefined
    ? undefined
    : "kubectl applied it, so another component may need it";
}

async function removeDefinition(
  store: Store,
  definition: Definition,
  { withObjects, tell, untilGone }: Uninstallation,
): Promise<void> {
  const name = nameOf(definition);
  const isRemovable = !isShared(definition);
  const kept =
    (isRemovable ? undefined : reasonOfOthers(definition)) ??
    (isRemovable && withObjects ? undefined : await reasonToKeep(store, definition));
  if (kept !== undefined) {
    tell({ name, kept, isRemovable });
    return;
  }
  await store.delete(DEFINITIONS, definition.metadata);
  await untilGone(DEFINITIONS, definition.metadata);
  tell({ name });
}

/** First those whom the API server asks, then pods with all that they need; the namespace takes what is in it along. */
function inOrder(): readonly ResourceType<KubeObject>[] {
  const others = TYPES.filter((type) => type !== NAMESPACES && type !== DEFINITIONS);
  return [...BESIDE, ...others.toReversed(), NAMESPACES];
}

/**
 * Takes away everything that carries the product's mark. Safe to repeat.
 * @throws AppError with INSTALL_IN_USE while there are VMs or VMIs, before anything is touched; with what the store throws
 */
export async function uninstall(store: Store, how: Uninstallation): Promise<void> {
  await refuseWhileInUse(store);
  await leaveRuntimes(store);
  for (const type of inOrder()) {
    for (const object of await listAll(store, type, { labelSelector: OURS })) {
      await store.delete(type, object.metadata, { propagationPolicy: "Background" });
      if (type === NAMESPACES) await how.untilGone(type, object.metadata);
      how.tell({ name: nameOf(object) });
    }
  }
  const definitions = await store.list(DEFINITIONS, { labelSelector: OURS });
  for (const item of definitions.items) {
    // As its kind says.
    const definition = { ...item, kind: DEFINITIONS.kind } as Definition;
    await removeDefinition(store, definition, how);
  }
}
