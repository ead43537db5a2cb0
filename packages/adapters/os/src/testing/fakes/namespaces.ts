// SPDX-License-Identifier: Apache-2.0
// Network namespaces by path, in memory.
import type { Namespaces, OpenNetns } from "@patchbay/core/interfaces";

export interface FakeNamespaces extends Namespaces {
  /** Creates a namespace. */
  put(path: string, inode: string): void;
  /** Removes a namespace; open handles remain valid. */
  take(path: string): void;
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

export function createFakeNamespaces(): FakeNamespaces {
  return new MemoryNamespaces();
}
