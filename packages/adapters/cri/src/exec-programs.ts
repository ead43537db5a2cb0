// SPDX-License-Identifier: Apache-2.0
// Programs of exec, by containerd's own task service: CRI starts them, and has no word for their end.
import { isAppError } from "@patchbay/core/errors";
import type { ExecPrograms } from "@patchbay/core/ports";
import type { CriOptions } from "./container-runtime.ts";
import { findEndpoint, type FoundEndpoint } from "./endpoints.ts";
import { CONTAINERD_NAMESPACE } from "./events.ts";

/** What one answer takes, milliseconds: a shim is asked, which may stand still. */
const TIMEOUT_MS = 5000;
const SIGKILL = 9;

/** Source: containerd tasks ListPidsResponse, runc options ProcessDetails. */
interface Processes {
  readonly processes: readonly {
    readonly info: { readonly value: { readonly execId: string } | null } | null;
  }[];
}

/** Programs of a runtime; `close` ends the connection. */
export interface CriExecPrograms extends ExecPrograms {
  close(): void;
}

/** Connects at the first call. A runtime that is no containerd answers nothing: UNIMPLEMENTED. */
export function createExecPrograms({ endpoints, clock }: CriOptions): CriExecPrograms {
  return new ContainerdPrograms(findEndpoint(endpoints, clock));
}

class ContainerdPrograms implements CriExecPrograms {
  readonly #found: FoundEndpoint;

  constructor(found: FoundEndpoint) {
    this.#found = found;
  }

  async list(containerId: string): Promise<readonly string[]> {
    const answer = await this.#ask<Processes>("ListPids", { containerId });
    const ids = (answer?.processes ?? []).map(({ info }) => info?.value?.execId ?? "");
    return ids.filter((id) => id !== "");
  }

  async kill(containerId: string, execId: string): Promise<void> {
    await this.#ask("Kill", { containerId, execId, signal: SIGKILL });
  }

  close(): void {
    this.#found.close();
  }

  /** Undefined where it knows nothing of what it was asked about. */
  async #ask<Answer>(method: string, request: object): Promise<Answer | undefined> {
    const endpoint = await this.#found.get();
    const service = "containerd.services.tasks.v1.Tasks";
    try {
      const call = { service, method, request, namespace: CONTAINERD_NAMESPACE } as const;
      return await endpoint.call<Answer>(call, TIMEOUT_MS);
    } catch (error) {
      if (isAppError(error, "CRI_FAILED") && error.details["status"] === "NOT_FOUND")
        return undefined;
      throw error;
    }
  }
}
