// SPDX-License-Identifier: Apache-2.0
// Programs of exec in memory: a test starts them.
import type { ExecPrograms } from "@patchbay/core/ports";

/** {@link ExecPrograms} in memory. */
export interface FakeExecPrograms extends ExecPrograms {
  /** One begins to run. */
  start(containerId: string, id: string): void;
  /** One ends by itself. */
  end(containerId: string, id: string): void;
}

/** A runtime in which none runs. */
export function createFakeExecPrograms(): FakeExecPrograms {
  const running = new Map<string, Set<string>>();
  const end = (containerId: string, id: string): void => {
    running.get(containerId)?.delete(id);
  };
  return {
    start: (containerId, id) => {
      running.set(containerId, (running.get(containerId) ?? new Set()).add(id));
    },
    end,
    list: (containerId) => Promise.resolve([...(running.get(containerId) ?? [])]),
    kill: (containerId, id) => {
      end(containerId, id);
      return Promise.resolve();
    },
  };
}
