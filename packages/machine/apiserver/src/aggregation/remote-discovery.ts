// SPDX-License-Identifier: Apache-2.0
// What aggregated servers have, as they said when they were last asked.
import { type Fields, isFields, textAt } from "../objects/json.ts";
import type { Store } from "../storage/store.ts";
import {
  API_SERVICES_BUCKET,
  type Priority,
  availableCondition,
  isAggregated,
  localPriority,
} from "./api-services.ts";

/** What a server said of a group version. */
interface RemoteDocuments {
  /** metav1.APIResourceList. */
  readonly resources: Fields;
  /** Address of its OpenAPI v3 document; empty where it has none. */
  readonly openApiUrl: string;
}

/** A group version of another server. */
export interface RemoteVersion {
  readonly group: string;
  readonly version: string;
  readonly isAvailable: boolean;
  /** Undefined until the server has answered once. */
  readonly documents: RemoteDocuments | undefined;
}

/** Group versions of other servers, and the order of all. */
export class RemoteDiscovery {
  readonly #store: Store;
  /** By name of the APIService. */
  readonly #documents = new Map<string, RemoteDocuments>();

  constructor(store: Store) {
    this.#store = store;
  }

  /** Keeps what a server said. */
  remember(name: string, documents: RemoteDocuments): void {
    this.#documents.set(name, documents);
  }

  list(): readonly RemoteVersion[] {
    return this.#apiServices()
      .filter(isAggregated)
      .map((object) => ({
        group: textAt(object, "spec", "group"),
        version: textAt(object, "spec", "version"),
        isAvailable: textAt(availableCondition(object), "status") === "True",
        documents: this.#documents.get(object.metadata.name),
      }));
  }

  /** Whether another server has the group version. */
  has(group: string, version: string): boolean {
    const address = { bucket: API_SERVICES_BUCKET, namespace: "", name: `${version}.${group}` };
    const object = this.#store.find(address)?.view();
    return object !== undefined && isAggregated(object);
  }

  /** How group versions are ordered. One that has no APIService yet is that of a new definition. */
  priorities(): (group: string, version: string) => Priority {
    const known = new Map(
      this.#apiServices().map(({ metadata, spec }) => [metadata.name, priorityOf(spec)]),
    );
    return (group, version) =>
      known.get(`${version}.${group}`) ?? localPriority(group, version, true);
  }

  #apiServices() {
    return this.#store.list({ bucket: API_SERVICES_BUCKET }).map((stored) => stored.view());
  }
}

function priorityOf(spec: unknown): Priority {
  const { groupPriorityMinimum, versionPriority } = isFields(spec) ? spec : {};
  return { group: Number(groupPriorityMinimum ?? 0), version: Number(versionPriority ?? 0) };
}
