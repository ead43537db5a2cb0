// SPDX-License-Identifier: Apache-2.0
// Programs that were started in containers by exec. CRI can start such programs, but not list or kill them.

/** @throws AppError from every call: CRI_UNAVAILABLE, CRI_FAILED (UNIMPLEMENTED if the runtime cannot list programs), CRI_TIMED_OUT */
export interface ExecPrograms {
  list(containerId: string): Promise<readonly string[]>;
  /** Kills the program with SIGKILL, without its children. Succeeds if the program does not exist. */
  kill(containerId: string, id: string): Promise<void>;
}
