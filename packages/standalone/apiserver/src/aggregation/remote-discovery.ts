// SPDX-License-Identifier: Apache-2.0
// Discovery documents of extension API servers, as of the last successful probe.
import { type Fields, isFields, textAt } from "../objects/json.ts";
import type { Store } from "../storage/store.ts";
import {
  API_SERVICES_BUCKET,
  type Priority,
  findAvailableCondition,
  isAggregated,
  localPriority,
} from "./api-services.ts";

interface RemoteDocuments {
  readonly resources: Fields;
  /** Path of the group version's OpenAPI v3 document; empty if the server has no document. */
  readonly openApiUrl: string;
}

export interface RemoteVersion {
  readonly group: string;
  readonly version: string;
  readonly isAvailable: boolean;
  /** Documents of the last successful probe; undefined before the first one. */
  readonly documents: RemoteDocuments | undefined;
}

export class RemoteDiscovery {
  readonly #store: Store;
  readonly #documents = new Map<string, RemoteDocuments>();

  constructor(store: Store) {
    this.#store = store;
  }

  cache(name: string, documents: RemoteDocuments): void {
    this.#documents.set(name, documents);
  }

  list(): readonly RemoteVersion[] {
    return this.#apiServices()
      .filter(isAggregated)
      .map((object) => ({
        group: textAt(object, "spec", "group"),
        version: textAt(object, "spec", "version"),
        isAvailable: textAt(findAvailableCondition(object), "status") === "True",
        documents: this.#documents.get(object.metadata.name),
      }));
  }

  has(group: string, version: string): boolean {
    const address = { bucket: API_SERVICES_BUCKET, namespace: "", name: `${version}.${group}` };
    const object = this.#store.find(address)?.view();
    return object !== undefined && isAggregated(object);
  }

  /** Returns a function that finds a group version's priority. A version without an APIService has the priority of custom resources. */
  makePriorityLookup(): (group: string, version: string) => Priority {
    const byName = new Map(
      this.#apiServices().map(({ metadata, spec }) => [metadata.name, toPriority(spec)]),
    );
    return (group, version) =>
      byName.get(`${version}.${group}`) ?? localPriority(group, version, true);
  }

  #apiServices() {
    return this.#store.list({ bucket: API_SERVICES_BUCKET }).map((stored) => stored.view());
  }
}

function toPriority(spec: unknown): Priority {
  const { groupPriorityMinimum, versionPriority } = isFields(spec) ? spec : {};
  return { group: Number(groupPriorityMinimum ?? 0), version: Number(versionPriority ?? 0) };
}
