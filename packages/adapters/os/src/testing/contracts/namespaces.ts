// SPDX-License-Identifier: Apache-2.0
// Contract of Namespaces, for the fake and for the kernel.
import { describe, expect, test } from "vitest";
import type { Namespaces } from "@patchbay/core/interfaces";

/** A machine with one namespace. */
export interface NamespacesBench {
  readonly namespaces: Namespaces;
  /** Path of the namespace. */
  readonly path: string;
  readonly inode: string;
  /** Path that does not exist. */
  readonly emptyPath: string;
}

/** Defines tests named `Namespaces: NAME`; each creates its own bench. */
export function describeNamespacesContract(name: string, make: () => NamespacesBench): void {
  describe(`Namespaces: ${name}`, () => {
    test("opens a namespace with its inode, separately each time", () => {
      const { namespaces, path, inode } = make();
      const one = namespaces.open(path);
      const other = namespaces.open(path);
      expect([one?.inode, other?.inode]).toEqual([inode, inode]);
      expect(one?.fd).not.toBe(other?.fd);
      one?.close();
      other?.close();
    });

    test("finds no namespace at a missing path", () => {
      const { namespaces, emptyPath } = make();
      expect(namespaces.open(emptyPath)).toBeUndefined();
    });
  });
}
