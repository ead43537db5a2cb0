// SPDX-License-Identifier: Apache-2.0
// A process that dies at a given call. Only calls that change something outside the process count.
import { names } from "@patchbay/api";
import type { Journal } from "@patchbay/cni";
import type { DefaultRoutes, NodeNics, PodNetwork, Store } from "@patchbay/core/interfaces";

/** Process of the agent. It dies before the call with this number, and performs no further calls. */
export class Life {
  #calls = 0;
  readonly #dieAt: number;
  constructor(dieAt: number) {
    this.#dieAt = dieAt;
  }
  get calls(): number {
    return this.#calls;
  }
  get isDead(): boolean {
    return this.#calls >= this.#dieAt;
  }
  async call<T>(perform: () => Promise<T>): Promise<T> {
    if (this.isDead) throw new Error("the process is dead");
    this.#calls += 1;
    if (this.#calls >= this.#dieAt) throw new Error("the process dies here");
    return perform();
  }
}

export function crashingJournal(journal: Journal, life: Life): Journal {
  return {
    ...journal,
    write: (row) => life.call(() => journal.write(row)),
    remove: (row) => life.call(() => journal.remove(row)),
  };
}

export function crashingPodNetwork(
  network: PodNetwork,
  life: Life,
): Pick<PodNetwork, "listLinks" | "readPaths" | "restoreNic" | "removeLink" | "restoreName"> {
  return {
    readPaths: (netns, name) => network.readPaths(netns, name),
    listLinks: (netns) => network.listLinks(netns),
    restoreNic: (netns, lent) => life.call(() => network.restoreNic(netns, lent)),
    removeLink: (netns, name) => life.call(() => network.removeLink(netns, name)),
    restoreName: (netns, nic) => life.call(() => network.restoreName(netns, nic)),
  };
}

/** Wraps the store. Requests of VMIs fail if the server lacks KubeVirt. */
export function crashingStore(
  store: Store,
  life: Life,
  server: {
    readonly hasKubeVirt: boolean;
    readonly storeError: Error;
    readonly beforeEachWrite: () => void;
  },
): Store {
  return {
    find: (type, key) => {
      if (type.group === names.KUBEVIRT_GROUP && !server.hasKubeVirt) {
        return Promise.reject(server.storeError);
      }
      return store.find(type, key);
    },
    list: (type) => store.list(type),
    create: (type, object) => store.create(type, object),
    update: (type, object) => store.update(type, object),
    patch: (type, key, patch, options) => {
      server.beforeEachWrite();
      return life.call(() => store.patch(type, key, patch, options));
    },
    delete: (type, key) => store.delete(type, key),
  };
}

export function crashingRoutes(routes: DefaultRoutes, life: Life): DefaultRoutes {
  return {
    list: (netns) => routes.list(netns),
    add: (netns, route) => life.call(() => routes.add(netns, route)),
    remove: (netns, route) => life.call(() => routes.remove(netns, route)),
    restore: (netns, route) => life.call(() => routes.restore(netns, route)),
  };
}

export function crashingNics(nics: NodeNics, life: Life): NodeNics {
  return {
    find: (host, name) => nics.find(host, name),
    returnToHost: (pod, name, host) => life.call(() => nics.returnToHost(pod, name, host)),
    restore: (host, nic) => life.call(() => nics.restore(host, nic)),
  };
}
