// SPDX-License-Identifier: Apache-2.0
// In-memory hooks.
import { AppError, messageOf } from "@patchbay/base";
import type { HookSidecar, HookSidecars } from "@patchbay/core/interfaces";
import type { ServedHook } from "../serve-hook.ts";

/** Hook in memory; a silent one never replies. */
export type FakeHook = ServedHook | "silent";

/** {@link HookSidecars} in memory. Tests control the sidecars. */
export interface FakeHookSidecars extends HookSidecars {
  /** Starts a sidecar, replacing one of the same name. */
  put(podUid: string, container: string, hook: FakeHook): void;
  /** Ends a sidecar. */
  take(podUid: string, container: string): void;
  readonly openCount: number;
  /** Calls in order, as `CONTAINER METHOD`. */
  readonly calls: readonly string[];
}

class MemoryHooks implements FakeHookSidecars {
  readonly #hooks = new Map<string, FakeHook>();
  readonly #open = new Set<HookSidecar>();
  readonly calls: string[] = [];

  get openCount(): number {
    return this.#open.size;
  }

  put(podUid: string, container: string, hook: FakeHook): void {
    this.#hooks.set(`${podUid} ${container}`, hook);
  }

  take(podUid: string, container: string): void {
    this.#hooks.delete(`${podUid} ${container}`);
  }

  connect({ uid }: { readonly uid: string }, container: string): Promise<HookSidecar> {
    return new Promise((resolve) => {
      this.#find(uid, container);
      resolve(this.#opened(uid, container));
    });
  }

  #opened(uid: string, container: string): HookSidecar {
    const call = async <T>(method: string, answer: (hook: ServedHook) => T | Promise<T>) => {
      this.calls.push(`${container} ${method}`);
      const hook = this.#find(uid, container);
      if (hook === "silent") {
        throw new AppError("HOOK_TIMED_OUT", { hook: container, call: method, timeoutMs: 0 });
      }
      try {
        return await answer(hook);
      } catch (error) {
        const reason = `UNKNOWN: ${messageOf(error)}`;
        throw new AppError("HOOK_FAILED", { hook: container, call: method, reason });
      }
    };
    const sidecar: HookSidecar = {
      info: () => call("Info", ({ info }) => info),
      onDefineDomain: ({ domainXml, vmi }) =>
        call("OnDefineDomain", ({ onDefineDomain = (xml) => xml }) =>
          onDefineDomain(domainXml, vmi),
        ),
      preCloudInitIso: ({ data, noCloudSource }) =>
        call("PreCloudInitIso", ({ preCloudInitIso = (input) => input }) =>
          preCloudInitIso({ data, noCloudSource }),
        ),
      shutdown: () =>
        call("Shutdown", ({ shutdown }) => {
          shutdown?.();
        }),
      close: () => {
        this.#open.delete(sidecar);
        return Promise.resolve();
      },
    };
    this.#open.add(sidecar);
    return sidecar;
  }

  #find(uid: string, container: string): FakeHook {
    const hook = this.#hooks.get(`${uid} ${container}`);
    if (hook !== undefined) return hook;
    throw new AppError("HOOK_UNREACHABLE", { hook: container, reason: "it has no socket" });
  }
}

export function createFakeHookSidecars(): FakeHookSidecars {
  return new MemoryHooks();
}
