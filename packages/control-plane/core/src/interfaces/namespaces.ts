// SPDX-License-Identifier: Apache-2.0

/** An open network namespace. Programs inherit the descriptor, so a recycled PID does no harm. */
export interface NetnsHandle {
  readonly fd: number;
  /** Inode of the namespace as decimal text. */
  readonly inode: string;
}

export interface Namespaces {
  /** Opens the namespace at `path`. Returns undefined if there is none, or only the plain file that a removed namespace left behind. */
  open(path: string): OpenNetns | undefined;
}

/** An open namespace. The descriptor is valid until `close`. */
export interface OpenNetns extends NetnsHandle {
  close(): void;
}
