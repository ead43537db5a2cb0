// SPDX-License-Identifier: Apache-2.0
// Links of pods in memory.
import { AppError } from "@patchbay/core";
import type { Link, NetnsHandle, PodNetwork, TapWiring } from "../pod-network.ts";

/** A {@link PodNetwork} in memory, and the hands of CNI on it. */
export interface FakePodNetwork extends PodNetwork {
  /** Puts a link into a namespace, replacing the one of that name. */
  putLink(netnsInode: string, link: Omit<Link, "index">): void;
  /** Takes a link out of a namespace; not there is success. */
  takeLink(netnsInode: string, name: string): void;
  /** What the namespace's links were, by name. */
  findLink(netnsInode: string, name: string): Link | undefined;
  /** The next call of this name throws the error instead. */
  failNext(call: "listLinks" | "wireTap" | "unwireTap", error: unknown): void;
}

/** Makes an empty world; each namespace, by its inode, begins with `lo` only. */
export function createFakePodNetwork(): FakePodNetwork {
  return new MemoryPodNetwork();
}

class MemoryPodNetwork implements FakePodNetwork {
  readonly #namespaces = new Map<string, Map<string, Link>>();
  readonly #watchers = new Map<string, Set<() => void>>();
  readonly #failures = new Map<string, unknown>();
  #lastIndex = 1;

  putLink(netnsInode: string, link: Omit<Link, "index">): void {
    const links = this.#linksOf(netnsInode);
    const index = links.get(link.name)?.index ?? this.#nextIndex();
    links.set(link.name, { ...link, index });
    this.#notify(netnsInode);
  }

  takeLink(netnsInode: string, name: string): void {
    const links = this.#linksOf(netnsInode);
    if (!links.delete(name)) return;
    for (const link of links.values()) {
      if (link.master === name) links.set(link.name, withoutMaster(link));
    }
    this.#notify(netnsInode);
  }

  findLink(netnsInode: string, name: string): Link | undefined {
    return this.#linksOf(netnsInode).get(name);
  }

  failNext(call: "listLinks" | "wireTap" | "unwireTap", error: unknown): void {
    this.#failures.set(call, error);
  }

  listLinks(netns: NetnsHandle): Promise<readonly Link[]> {
    return this.#call("listLinks", () =>
      [...this.#linksOf(netns.inode).values()].toSorted((a, b) => (a.name < b.name ? -1 : 1)),
    );
  }

  wireTap(netns: NetnsHandle, wiring: TapWiring): Promise<void> {
    return this.#call("wireTap", () => {
      this.#wire(netns.inode, wiring);
    });
  }

  unwireTap(netns: NetnsHandle, wiring: Pick<TapWiring, "tapName" | "bridgeName">): Promise<void> {
    return this.#call("unwireTap", () => {
      this.takeLink(netns.inode, wiring.tapName);
      this.takeLink(netns.inode, wiring.bridgeName);
    });
  }

  watchLinks(netns: NetnsHandle, changed: () => void, signal: AbortSignal): void {
    if (signal.aborted) return;
    const watchers = this.#watchers.get(netns.inode) ?? new Set();
    this.#watchers.set(netns.inode, watchers.add(changed));
    signal.addEventListener("abort", () => watchers.delete(changed), { once: true });
    queueMicrotask(() => {
      if (!signal.aborted) changed();
    });
  }

  #wire(inode: string, wiring: TapWiring): void {
    const { podInterfaceName, bridgeName: master, tapName, mtu, mac } = wiring;
    const nic = this.findLink(inode, podInterfaceName);
    if (nic === undefined) throw new AppError("PODNET_LINK_MISSING", { link: podInterfaceName });
    if (nic.kind === "ipvlan") {
      throw new AppError("PODNET_NETWORK_CANNOT_CARRY_VM", { kind: nic.kind });
    }
    const bridgeMac = `5e${mac.slice(2)}`;
    this.putLink(inode, { name: master, kind: "bridge", mac: bridgeMac, mtu, up: true });
    const tapMac = `5a${mac.slice(2)}`;
    this.putLink(inode, { name: tapName, kind: "tun", mac: tapMac, mtu, up: true, master });
    this.putLink(inode, { ...nic, mac, up: true, master });
  }

  #linksOf(inode: string): Map<string, Link> {
    const known = this.#namespaces.get(inode);
    if (known !== undefined) return known;
    const lo: Link = {
      name: "lo",
      index: 1,
      kind: "",
      mac: "00:00:00:00:00:00",
      mtu: 65536,
      up: true,
    };
    const links = new Map([[lo.name, lo]]);
    this.#namespaces.set(inode, links);
    return links;
  }

  #nextIndex(): number {
    this.#lastIndex += 1;
    return this.#lastIndex;
  }

  #notify(inode: string): void {
    for (const changed of this.#watchers.get(inode) ?? []) changed();
  }

  async #call<T>(name: string, act: () => T): Promise<T> {
    await Promise.resolve();
    if (!this.#failures.has(name)) return act();
    const error = this.#failures.get(name);
    this.#failures.delete(name);
    throw error;
  }
}

function withoutMaster(link: Link): Link {
  const { name, index, kind, mac, mtu, up } = link;
  return { name, index, kind, mac, mtu, up };
}
