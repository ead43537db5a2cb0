// SPDX-License-Identifier: Apache-2.0
// NICs of the node in memory. Their addresses and routes are texts, each of which is all of its words.
import { normalizeMac } from "@patchbay/api/values";
import type {
  NetnsHandle,
  NodeNic,
  NodeNicName,
  NodeNics,
  RestoredNic,
} from "@patchbay/core/interfaces";

/** {@link NodeNics} in memory. */
export interface FakeNodeNics extends NodeNics {
  /** Puts a NIC into a namespace. */
  put(netnsInode: string, nic: NodeNic): void;
  /** The NIC of that name. */
  at(netnsInode: string, name: string): NodeNic | undefined;
  /** Names of a namespace's NICs, in order of their index. */
  namesAt(netnsInode: string): readonly string[];
  /** A NIC goes to another namespace, down and without addresses, as another one where that is said. */
  move(
    from: { readonly inode: string; readonly name: string },
    to: string,
    changes?: Partial<NodeNic>,
  ): void;
  /** A namespace goes, and all that is in it. */
  drop(netnsInode: string): void;
  /** The device of that PCI address, name or path has the NIC of that name. */
  putDevice(device: string, name: string): void;
  /** What the kernel refuses to give to any NIC, from now on; empty: nothing. */
  refused: readonly string[];
}

/** No namespace has any. */
export function createFakeNodeNics(): FakeNodeNics {
  return new MemoryNodeNics();
}

function isBorrowed(nic: NodeNic, present: NodeNic): boolean {
  if (nic.permanentMac !== undefined) return present.permanentMac === nic.permanentMac;
  return present.alias === nic.name || (present.name === nic.name && present.mac === nic.mac);
}

class MemoryNodeNics implements FakeNodeNics {
  refused: readonly string[] = [];
  readonly #nics = new Map<string, readonly NodeNic[]>();
  readonly #devices = new Map<string, string>();
  #lastIndex = 100;

  put(inode: string, nic: NodeNic): void {
    this.#nics.set(inode, [...this.#of(inode), nic]);
  }

  at(inode: string, name: string): NodeNic | undefined {
    return this.#of(inode).find((nic) => nic.name === name);
  }

  namesAt(inode: string): readonly string[] {
    return this.#of(inode).map(({ name }) => name);
  }

  move(
    { inode, name }: { readonly inode: string; readonly name: string },
    to: string,
    changes: Partial<NodeNic> = {},
  ): void {
    const nic = this.at(inode, name);
    if (nic === undefined) return;
    this.#take(inode, nic);
    this.put(to, { ...nic, up: false, addresses: [], routes: [], ...changes });
  }

  drop(inode: string): void {
    this.#nics.delete(inode);
  }

  putDevice(device: string, name: string): void {
    this.#devices.set(device, name);
  }

  async find({ inode }: NetnsHandle, by: NodeNicName): Promise<NodeNic | undefined> {
    await Promise.resolve();
    switch (by.by) {
      case "name":
        return this.at(inode, by.name);
      case "mac":
        return this.#of(inode).find(({ mac }) => mac === normalizeMac(by.mac));
      case "kernelPath":
        return this.at(inode, this.#devices.get(by.path) ?? "");
      case "device":
        return this.at(inode, this.#devices.get(by.id) ?? "");
    }
  }

  async returnToHost(pod: NetnsHandle, name: string, host: NetnsHandle): Promise<void> {
    await Promise.resolve();
    this.#lastIndex += 1;
    const index = this.#lastIndex;
    this.move({ inode: pod.inode, name }, host.inode, { index, name: `dev${String(index)}` });
  }

  async restore({ inode }: NetnsHandle, nic: NodeNic): Promise<RestoredNic> {
    await Promise.resolve();
    const present = this.#of(inode).find((one) => isBorrowed(nic, one));
    if (present === undefined) return { kind: "absent" };
    const restored = (has: readonly string[], had: readonly string[]): readonly string[] => {
      const missing = had.filter((one) => !has.includes(one) && !this.refused.includes(one));
      return [...has, ...missing];
    };
    const addresses = restored(present.addresses, nic.addresses);
    const routes = restored(present.routes, nic.routes);
    this.#take(inode, present);
    this.put(inode, { ...nic, index: present.index, addresses, routes });
    const faults = [...nic.addresses, ...nic.routes].filter((one) => this.refused.includes(one));
    return { kind: "there", rejectedSettings: faults };
  }

  #of(inode: string): readonly NodeNic[] {
    return this.#nics.get(inode) ?? [];
  }

  #take(inode: string, nic: NodeNic): void {
    this.#nics.set(
      inode,
      this.#of(inode).filter((one) => one !== nic),
    );
  }
}
