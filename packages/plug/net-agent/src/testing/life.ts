// SPDX-License-Identifier: Apache-2.0
// When does a process die, counted in its calls that change something outside? What only looks is not counted.
import { names } from "@patchbay/api";
import type { Journal } from "@patchbay/cni";
import type { DefaultRoutes, NodeNics, PodNetwork, Store } from "@patchbay/core/ports";

/** The agent's process: it dies before the call whose number is given, and does nothing afterwards. */
export class Life {
  #calls = 0;
  readonly #dieAt: number;
  constructor(dieAt: number) {
    this.#dieAt = dieAt;
  }
  /** How many there were. */
  get calls(): number {
    return this.#calls;
  }
  get isOver(): boolean {
    return this.#calls >= this.#dieAt;
  }
  async call<T>(perform: () => Promise<T>): Promise<T> {
    if (this.isOver) throw new Error("the process is dead");
    this.#calls += 1;
    if (this.#calls >= this.#dieAt) throw new Error("the process dies here");
    return perform();
  }
}

/** The journal of a process that can die. */
export function mortalJournal(journal: Journal, life: Life): Journal {
  return {
    ...journal,
    write: (row) => life.call(() => journal.write(row)),
    remove: (row) => life.call(() => journal.remove(row)),
  };
}

/** What the agent does to links itself. */
export function mortalPodNetwork(
  network: PodNetwork,
  life: Life,
): Pick<PodNetwork, "listLinks" | "giveBack" | "removeLink" | "restoreName"> {
  return {
    listLinks: (netns) => network.listLinks(netns),
    giveBack: (netns, lent) => life.call(() => network.giveBack(netns, lent)),
    removeLink: (netns, name) => life.call(() => network.removeLink(netns, name)),
    restoreName: (netns, nic) => life.call(() => network.restoreName(netns, nic)),
  };
}

/** The API server of a process that can die; VMIs are found where it has KubeVirt. */
export function mortalStore(
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

/** Changes of default routes are calls. */
export function mortalRoutes(routes: DefaultRoutes, life: Life): DefaultRoutes {
  return {
    list: (netns) => routes.list(netns),
    add: (netns, route) => life.call(() => routes.add(netns, route)),
    remove: (netns, route) => life.call(() => routes.remove(netns, route)),
    restore: (netns, route) => life.call(() => routes.restore(netns, route)),
  };
}

/** Changes of the node's NICs are calls. */
export function mortalNics(nics: NodeNics, life: Life): NodeNics {
  return {
    find: (host, name) => nics.find(host, name),
    bringBack: (pod, name, host) => life.call(() => nics.bringBack(pod, name, host)),
    restore: (host, nic) => life.call(() => nics.restore(host, nic)),
  };
}
