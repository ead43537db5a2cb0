// SPDX-License-Identifier: Apache-2.0

/** An open network namespace. Programs inherit the descriptor, so a recycled PID does no harm. */
export interface NetnsHandle {
  readonly fd: number;
  /** Inode of the namespace, decimal text. */
  readonly inode: string;
}

export interface Namespaces {
  /** The namespace at `path`. Undefined if there is none; a leftover plain file is none. */
  open(path: string): OpenNetns | undefined;
}

/** An open namespace. The descriptor is valid until `close`. */
export interface OpenNetns extends NetnsHandle {
  close(): void;
}
