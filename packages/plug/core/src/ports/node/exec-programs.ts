// SPDX-License-Identifier: Apache-2.0
// Programs that were started in containers beside their own, of which CRI tells nothing once they run.

/**
 * The programs of exec, as the runtime knows them.
 * @throws AppError of every call: CRI_UNAVAILABLE, CRI_FAILED (UNIMPLEMENTED where a runtime does not tell), CRI_TIMED_OUT
 */
export interface ExecPrograms {
  /** Ids of those that run; none of a container that is gone. */
  list(containerId: string): Promise<readonly string[]>;
  /** Ends one by SIGKILL, not what it has started; gone is success. */
  kill(containerId: string, id: string): Promise<void>;
}
