// SPDX-License-Identifier: Apache-2.0
import { normalizeMac } from "@patchbay/api/values";
import type {
  NetnsHandle,
  NodeNic,
  NodeNicName,
  NodeNics,
  RestoredNic,
} from "@patchbay/core/interfaces";

/** {@link NodeNics} in memory, where addresses and routes are plain text. */
export interface FakeNodeNics extends NodeNics {
  put(netnsInode: string, nic: NodeNic): void;
  findNic(netnsInode: string, name: string): NodeNic | undefined;
  /** Lists names of a namespace's NICs in the order of their addition. */
  listNames(netnsInode: string): readonly string[];
  /** Moves a NIC to another namespace, where it is down, without addresses and routes, and has the given changes. */
  move(
    from: { readonly inode: string; readonly name: string },
    to: string,
    changes?: Partial<NodeNic>,
  ): void;
  /** Deletes a namespace with its NICs. */
  drop(netnsInode: string): void;
  /** Assigns a NIC to a device, which is a PCI address, a device name or a path. */
  putDevice(device: string, name: string): void;
  /** Addresses and routes that the kernel refuses to add to any NIC. */
  refused: readonly string[];
}

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

  findNic(inode: string, name: string): NodeNic | undefined {
    return this.#of(inode).find((nic) => nic.name === name);
  }

  listNames(inode: string): readonly string[] {
    return this.#of(inode).map(({ name }) => name);
  }

  move(
    { inode, name }: { readonly inode: string; readonly name: string },
    to: string,
    changes: Partial<NodeNic> = {},
  ): void {
    const nic = this.findNic(inode, name);
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
        return this.findNic(inode, by.name);
      case "mac":
        return this.#of(inode).find(({ mac }) => mac === normalizeMac(by.mac));
      case "kernelPath":
        return this.findNic(inode, this.#devices.get(by.path) ?? "");
      case "device":
        return this.findNic(inode, this.#devices.get(by.id) ?? "");
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
