// SPDX-License-Identifier: Apache-2.0
import type { ExecPrograms } from "@patchbay/core/interfaces";

export interface FakeExecPrograms extends ExecPrograms {
  start(containerId: string, id: string): void;
  end(containerId: string, id: string): void;
}

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
