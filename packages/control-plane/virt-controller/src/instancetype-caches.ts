// SPDX-License-Identifier: Apache-2.0
import {
  CLUSTER_INSTANCETYPES,
  CLUSTER_PREFERENCES,
  CONTROLLER_REVISIONS,
  INSTANCETYPES,
  names,
  PREFERENCES,
  type Instancetype,
  type Preference,
  type ResourceType,
  type VirtualMachine,
} from "@patchbay/api";
import type { ControllerRevision, KubeObject } from "@patchbay/api/kubernetes";
import {
  findMatcher,
  MATCHER_ROLES,
  findMatchedType,
  findUsedRevision,
} from "@patchbay/core/instancetype";
import type { Cache } from "@patchbay/core/interfaces";
import type { Logger } from "@patchbay/base";
import { createCache, type KubeClient, type CachedKind, type StartableCache } from "@patchbay/kube";

export interface InstancetypeCaches {
  readonly instancetypes: StartableCache<Instancetype>;
  readonly clusterInstancetypes: StartableCache<Instancetype>;
  readonly preferences: StartableCache<Preference>;
  readonly clusterPreferences: StartableCache<Preference>;
  readonly revisions: StartableCache<ControllerRevision>;
}

/** Selector that excludes revisions of other controllers, for example of DaemonSets. */
const REVISION_SELECTION = { labelSelector: `${names.REVISION_LABEL_PREFIX}kind` };

export function createInstancetypeCaches(client: KubeClient, logger: Logger): InstancetypeCaches {
  return {
    instancetypes: createCache(client.reflect(INSTANCETYPES), { logger }),
    clusterInstancetypes: createCache(client.reflect(CLUSTER_INSTANCETYPES), { logger }),
    preferences: createCache(client.reflect(PREFERENCES), { logger }),
    clusterPreferences: createCache(client.reflect(CLUSTER_PREFERENCES), { logger }),
    revisions: createCache(client.reflect(CONTROLLER_REVISIONS, REVISION_SELECTION), { logger }),
  };
}

export function listInstancetypeCaches(
  caches: InstancetypeCaches,
): readonly StartableCache<KubeObject>[] {
  const { instancetypes, clusterInstancetypes, preferences, clusterPreferences } = caches;
  return [
    instancetypes,
    clusterInstancetypes,
    preferences,
    clusterPreferences,
    caches.revisions,
  ] as const;
}

interface MatcherCache {
  readonly type: ResourceType<KubeObject>;
  readonly cache: Cache<KubeObject>;
}

function listMatcherCaches(caches: InstancetypeCaches): readonly MatcherCache[] {
  return [
    { type: INSTANCETYPES, cache: caches.instancetypes },
    { type: CLUSTER_INSTANCETYPES, cache: caches.clusterInstancetypes },
    { type: PREFERENCES, cache: caches.preferences },
    { type: CLUSTER_PREFERENCES, cache: caches.clusterPreferences },
  ];
}

export function listCachedInstancetypeKinds(caches: InstancetypeCaches): readonly CachedKind[] {
  return [...listMatcherCaches(caches), { type: CONTROLLER_REVISIONS, cache: caches.revisions }];
}

function toInstancetypeKey(
  { resource }: ResourceType<KubeObject>,
  namespace: string,
  name: string,
): string {
  return `${resource}/${namespace}/${name}`;
}

/** Returns the keys of the VM's instancetype and preference. Omits an object if the VM already uses a stored revision of the object. */
export function findMissingInstancetypes(vm: VirtualMachine): readonly string[] {
  return MATCHER_ROLES.flatMap((role) => {
    const matcher = findMatcher(vm, role);
    const type = matcher && findMatchedType(role, matcher.kind);
    if (type === undefined || findUsedRevision(vm, role) !== undefined) return [];
    const { namespace = "" } = vm.metadata;
    return [toInstancetypeKey(type, type.namespaced ? namespace : "", matcher?.name ?? "")];
  });
}

/** Calls `onChange` with the key of each changed instancetype or preference, in the form of the keys from findMissingInstancetypes. */
export function onInstancetypeChange(
  caches: InstancetypeCaches,
  onChange: (key: string) => void,
): void {
  for (const { type, cache } of listMatcherCaches(caches)) {
    cache.onChange((change) => {
      const { metadata } = change.kind === "deleted" ? change.previous : change.current;
      onChange(toInstancetypeKey(type, metadata.namespace ?? "", metadata.name));
    });
  }
}
