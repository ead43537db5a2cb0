// SPDX-License-Identifier: Apache-2.0
// What is below a directory in which somebody else may change names meanwhile: opened, and then named by its descriptor.
import { closeSync, constants, openSync } from "node:fs";
import { osNative } from "../native.ts";

/** Something below a trusted directory. */
export interface Beneath {
  /** Absolute, and trusted. */
  readonly root: string;
  /** From there on. */
  readonly path: string;
}

/** Node's functions follow the kernel's own link to the open file. */
export function pathOf(fd: number): string {
  return `/proc/self/fd/${String(fd)}`;
}

/** Opens it through no symbolic link, for no more than its name (O_PATH), and closes it after use. */
export function using<T>(at: Beneath, kind: "path" | "directory", use: (fd: number) => T): T {
  const root = openSync(at.root, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    const fd = osNative().openBeneath(root, at.path, kind);
    try {
      return use(fd);
    } finally {
      closeSync(fd);
    }
  } finally {
    closeSync(root);
  }
}
