// SPDX-License-Identifier: Apache-2.0
// Programs started by exec in containers. CRI does not list them.

/** @throws AppError from every call: CRI_UNAVAILABLE, CRI_FAILED (UNIMPLEMENTED if the runtime cannot list programs), CRI_TIMED_OUT */
export interface ExecPrograms {
  list(containerId: string): Promise<readonly string[]>;
  /** Kills the program (SIGKILL), but not its children. A missing program is success. */
  kill(containerId: string, id: string): Promise<void>;
}
