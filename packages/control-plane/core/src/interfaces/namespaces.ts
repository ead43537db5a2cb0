// SPDX-License-Identifier: Apache-2.0

/** A network namespace, identified by an open descriptor. A PID would be unsafe, because the kernel may reuse PIDs. */
export interface NetnsHandle {
  readonly fd: number;
  readonly inode: string;
}

export interface Namespaces {
  /** Opens the namespace at `path`. Returns undefined if `path` does not exist or is no longer a mounted namespace. */
  open(path: string): OpenNetns | undefined;
}

/** An open namespace. The descriptor is valid until `close`. */
export interface OpenNetns extends NetnsHandle {
  close(): void;
}
