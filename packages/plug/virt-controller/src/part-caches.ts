// SPDX-License-Identifier: Apache-2.0
// Instancetypes, preferences and their revisions, as watches tell of them; and which VMs wait for one.
import {
  CLUSTER_INSTANCETYPES,
  CLUSTER_PREFERENCES,
  CONTROLLER_REVISIONS,
  INSTANCETYPES,
  names,
  PREFERENCES,
  type ControllerRevision,
  type Instancetype,
  type KubeObject,
  type Preference,
  type ResourceType,
  type VirtualMachine,
} from "@patchbay/api";
import { matcherOf, PARTS, partTypeOf, usedRevisionOf } from "@patchbay/core";
import type { Cache, Logger } from "@patchbay/core/ports";
import { createCache, type KubeClient, type Known, type StartableCache } from "@patchbay/kube";

/** One for each kind. */
export interface PartCaches {
  readonly instancetypes: StartableCache<Instancetype>;
  readonly clusterInstancetypes: StartableCache<Instancetype>;
  readonly preferences: StartableCache<Preference>;
  readonly clusterPreferences: StartableCache<Preference>;
  readonly revisions: StartableCache<ControllerRevision>;
}

/** Revisions of others, such as DaemonSets, are none of ours. */
const REVISIONS = { labelSelector: `${names.REVISION_LABEL_PREFIX}kind` };

/** Makes them; they are empty until they are started. */
export function createPartCaches(client: KubeClient, logger: Logger): PartCaches {
  return {
    instancetypes: createCache(client.reflect(INSTANCETYPES), { logger }),
    clusterInstancetypes: createCache(client.reflect(CLUSTER_INSTANCETYPES), { logger }),
    preferences: createCache(client.reflect(PREFERENCES), { logger }),
    clusterPreferences: createCache(client.reflect(CLUSTER_PREFERENCES), { logger }),
    revisions: createCache(client.reflect(CONTROLLER_REVISIONS, REVISIONS), { logger }),
  };
}

/** All of them. */
export function listPartCaches(caches: PartCaches): readonly StartableCache<KubeObject>[] {
  const { instancetypes, clusterInstancetypes, preferences, clusterPreferences } = caches;
  return [
    instancetypes,
    clusterInstancetypes,
    preferences,
    clusterPreferences,
    caches.revisions,
  ] as const;
}

interface NamedCache {
  readonly type: ResourceType<KubeObject>;
  readonly cache: Cache<KubeObject>;
}

function namedCaches(caches: PartCaches): readonly NamedCache[] {
  return [
    { type: INSTANCETYPES, cache: caches.instancetypes },
    { type: CLUSTER_INSTANCETYPES, cache: caches.clusterInstancetypes },
    { type: PREFERENCES, cache: caches.preferences },
    { type: CLUSTER_PREFERENCES, cache: caches.clusterPreferences },
  ];
}

/** The kinds that are looked up by name. */
export function knownParts(caches: PartCaches): readonly Known[] {
  return [...namedCaches(caches), { type: CONTROLLER_REVISIONS, cache: caches.revisions }];
}

function partKey({ resource }: ResourceType<KubeObject>, namespace: string, name: string): string {
  return `${resource}/${namespace}/${name}`;
}

/** Instancetype and preference of a VM that it has no revision of yet. */
export function openPartsOf(vm: VirtualMachine): readonly string[] {
  return PARTS.flatMap((part) => {
    const matcher = matcherOf(vm, part);
    const type = matcher && partTypeOf(part, matcher.kind);
    if (type === undefined || usedRevisionOf(vm, part) !== undefined) return [];
    const { namespace = "" } = vm.metadata;
    return [partKey(type, type.namespaced ? namespace : "", matcher?.name ?? "")];
  });
}

/** Tells which instancetype or preference comes, changes or goes, by the keys of `openPartsOf`. */
export function onPartChange(caches: PartCaches, tell: (key: string) => void): void {
  for (const { type, cache } of namedCaches(caches)) {
    cache.onChange((change) => {
      const { metadata } = change.kind === "deleted" ? change.previous : change.current;
      tell(partKey(type, metadata.namespace ?? "", metadata.name));
    });
  }
}
