// SPDX-License-Identifier: Apache-2.0

/** Network namespace by open descriptor, because the kernel may reuse PIDs. */
export interface NetnsHandle {
  readonly fd: number;
  readonly inode: string;
}

export interface Namespaces {
  /** Returns undefined if `path` does not exist or is no longer a mounted namespace. */
  open(path: string): OpenNetns | undefined;
}

/** An open namespace. The descriptor is valid until `close`. */
export interface OpenNetns extends NetnsHandle {
  close(): void;
}
