// SPDX-License-Identifier: Apache-2.0
// Writes of the one that leads, and of nobody else: who cannot renew its Lease may have been replaced already.
import { AppError } from "@patchbay/core";
import type { Store, CallOptions } from "@patchbay/core/ports";
import { CALL_TIMEOUT_MS } from "../objects/object-store.ts";

/** How long writes may still be made, whole milliseconds; 0: not any more. */
export type TimeLeft = () => number;

/**
 * The same store, which reads as before. A write is refused once the time is over, and is given up when it ends before
 * the answer has come: none is under way when another begins to lead.
 * @throws AppError with KUBE_NOT_LEADING, of each write
 */
export function fencedStore(store: Store, timeLeft: TimeLeft): Store {
  const within = <O extends CallOptions>(options: O | undefined): O & CallOptions => {
    const leftMs = timeLeft();
    if (leftMs <= 0) throw new AppError("KUBE_NOT_LEADING", {});
    const timeoutMs = Math.min(options?.timeoutMs ?? CALL_TIMEOUT_MS, leftMs);
    return { ...options, timeoutMs } as O & CallOptions; // only the one field is another
  };
  return {
    find: (type, key, options) => store.find(type, key, options),
    list: (type, options) => store.list(type, options),
    create: async (type, object, options) => store.create(type, object, within(options)),
    update: async (type, object, options) => store.update(type, object, within(options)),
    patch: async (type, key, ...[patch, options]) => store.patch(type, key, patch, within(options)),
    delete: async (type, key, options) => store.delete(type, key, within(options)),
  };
}
