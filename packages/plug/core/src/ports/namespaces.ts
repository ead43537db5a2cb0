// SPDX-License-Identifier: Apache-2.0
// Network namespaces of the machine, by their paths.

/** An open network namespace; the descriptor is inherited by programs, so a recycled pid cannot be hit. */
export interface NetnsHandle {
  readonly fd: number;
  /** Inode of the namespace, decimal text. */
  readonly inode: string;
}

/** Opens network namespaces by path. */
export interface Namespaces {
  /** The namespace at `path`, or undefined when there is none; a plain file that was left behind is none. */
  open(path: string): OpenNetns | undefined;
}

/** A namespace that was opened; the descriptor is valid until `close`. */
export interface OpenNetns extends NetnsHandle {
  close(): void;
}
