// SPDX-License-Identifier: Apache-2.0
// Network namespaces by path, in memory.
import type { Namespaces, OpenNetns } from "@patchbay/core/interfaces";

/** {@link Namespaces} in memory. */
export interface FakeNamespaces extends Namespaces {
  /** The runtime makes a namespace with that inode. */
  put(path: string, inode: string): void;
  /** The runtime removes it; who has it open keeps it. */
  take(path: string): void;
  /** How many are open. */
  readonly openCount: number;
}

class MemoryNamespaces implements FakeNamespaces {
  readonly #inodes = new Map<string, string>();
  readonly #open = new Set<OpenNetns>();
  #lastFd = 100;

  get openCount(): number {
    return this.#open.size;
  }

  put(path: string, inode: string): void {
    this.#inodes.set(path, inode);
  }

  take(path: string): void {
    this.#inodes.delete(path);
  }

  open(path: string): OpenNetns | undefined {
    const inode = this.#inodes.get(path);
    if (inode === undefined) return undefined;
    this.#lastFd += 1;
    const netns = { fd: this.#lastFd, inode, close: () => void this.#open.delete(netns) };
    this.#open.add(netns);
    return netns;
  }
}

/** A machine without any namespace. */
export function createFakeNamespaces(): FakeNamespaces {
  return new MemoryNamespaces();
}
