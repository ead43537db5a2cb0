// SPDX-License-Identifier: Apache-2.0
import { DEFINITIONS_BUCKET, definitionKind } from "../custom/definition.ts";
import { toKinds } from "../custom/custom-kind.ts";
import { equalJson, textAt, valueAt } from "../objects/json.ts";
import type { Change, Store, StoredObject } from "../storage/store.ts";
import { API_SERVICE } from "./extension/api-service.ts";
import { CONFIG_MAP } from "./config/config-map.ts";
import { POD_DISRUPTION_BUDGET } from "./workload/disruption-budget.ts";
import { ENDPOINTS, ENDPOINT_SLICE } from "./network/endpoints.ts";
import { EVENT, EVENTS_K8S_IO_EVENT } from "./cluster/event.ts";
import { STORE_ONLY_KINDS } from "./store-only/store-only-kinds.ts";
import { type Kind, bucketOf } from "./kind.ts";
import { LIMIT_RANGE } from "./cluster/limit-range.ts";
import { NAMESPACE } from "./cluster/namespace.ts";
import { LEASE, NODE } from "./cluster/node.ts";
import { PERSISTENT_VOLUME } from "./storage/persistent-volume.ts";
import { PERSISTENT_VOLUME_CLAIM } from "./storage/persistent-volume-claim.ts";
import { POD } from "./workload/pod.ts";
import { RBAC_KINDS, REVIEW_KINDS } from "./access/rbac.ts";
import { RESOURCE_QUOTA } from "./cluster/resource-quota.ts";
import { SECRET } from "./config/secret.ts";
import { SERVICE_ACCOUNT } from "./access/service-account.ts";
import { SERVICE } from "./network/service.ts";
import { STORAGE_CLASS } from "./storage/storage-class.ts";
import { WEBHOOK_CONFIGURATION_KINDS } from "./extension/webhook-configuration.ts";

const BUILT_IN_KINDS: readonly Kind[] = [
  API_SERVICE,
  CONFIG_MAP,
  ENDPOINTS,
  ENDPOINT_SLICE,
  EVENT,
  EVENTS_K8S_IO_EVENT,
  LIMIT_RANGE,
  NAMESPACE,
  NODE,
  PERSISTENT_VOLUME,
  PERSISTENT_VOLUME_CLAIM,
  POD,
  POD_DISRUPTION_BUDGET,
  RESOURCE_QUOTA,
  SECRET,
  SERVICE,
  SERVICE_ACCOUNT,
  STORAGE_CLASS,
  LEASE,
  ...STORE_ONLY_KINDS,
  ...RBAC_KINDS,
  ...WEBHOOK_CONFIGURATION_KINDS,
  ...REVIEW_KINDS,
];

export class Registry {
  readonly #builtInKinds: readonly Kind[];
  readonly #customKinds = new Map<string, readonly Kind[]>();
  #kindsByPath: ReadonlyMap<string, Kind> = new Map();
  #sortedKinds: readonly Kind[] = [];

  constructor(store: Store) {
    const definitions = (group: string) =>
      store
        .list({ bucket: DEFINITIONS_BUCKET })
        .map((stored) => stored.view())
        .filter((definition) => textAt(definition, "spec", "group") === group);
    this.#builtInKinds = [...BUILT_IN_KINDS, definitionKind(definitions)];
    for (const stored of store.list({ bucket: DEFINITIONS_BUCKET })) {
      this.#define(stored, stored.revision);
    }
    this.#rebuild();
    store.subscribe((changes) => {
      this.#handleChanges(changes);
    });
  }

  find(group: string, version: string, resource: string): Kind | undefined {
    return this.#kindsByPath.get(`${group}/${version}/${resource}`);
  }

  /** Returns all kinds, sorted by group, version and resource. Returns the same array until a definition changes. */
  list(): readonly Kind[] {
    return this.#sortedKinds;
  }

  findByBucket(bucket: string): Kind | undefined {
    return this.list().find((kind) => kind.view === undefined && bucketOf(kind) === bucket);
  }

  findByKind(apiVersion: string, name: string): Kind | undefined {
    const [group, version] = apiVersion.includes("/") ? apiVersion.split("/") : ["", apiVersion];
    return this.list().find(
      (kind) => kind.group === group && kind.version === version && kind.kind === name,
    );
  }

  #handleChanges(changes: readonly Change[]): void {
    const definitionChanges = changes.filter(
      (change) => change.current.address.bucket === DEFINITIONS_BUCKET,
    );
    for (const change of definitionChanges) {
      if (change.type === "DELETED") {
        this.#customKinds.delete(change.current.address.name);
      } else {
        this.#define(change.current, this.#schemaRevision(change));
      }
    }
    if (definitionChanges.length > 0) {
      this.#rebuild();
    }
  }

  /** If spec.versions has changed, returns the change's revision, so that older objects are pruned again. Else returns the old revision. */
  #schemaRevision(change: Change): number {
    const previous = change.previous?.view();
    const isUnchanged = equalJson(
      valueAt(previous, "spec", "versions"),
      valueAt(change.current.view(), "spec", "versions"),
    );
    const knownRevision = this.#customKinds.get(change.current.address.name)?.[0]?.custom
      ?.schemaRevision;
    return isUnchanged && knownRevision !== undefined ? knownRevision : change.revision;
  }

  #define(stored: StoredObject, schemaRevision: number): void {
    this.#customKinds.set(stored.address.name, toKinds(stored.view(), schemaRevision));
  }

  #rebuild(): void {
    const kinds = [...this.#builtInKinds, ...[...this.#customKinds.values()].flat()];
    const entries = kinds.map(
      (kind) => [`${kind.group}/${kind.version}/${kind.resource}`, kind] as const,
    );
    this.#kindsByPath = new Map(entries.sort(([left], [right]) => (left < right ? -1 : 1)));
    this.#sortedKinds = [...this.#kindsByPath.values()];
  }
}
