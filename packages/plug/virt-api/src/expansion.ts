// SPDX-License-Identifier: Apache-2.0
// A VM with what it takes from its instancetype and its preference, as they are now.
import type { VirtualMachine } from "@patchbay/api";
import {
  expandedBy,
  hasParts,
  inferParts,
  isAppError,
  readParts,
  type Expansion,
  type InferredVm,
} from "@patchbay/core";
import type { Reader } from "@patchbay/kube";

/** Nothing is read for a VM that takes nothing. */
export async function expansionOf(reader: Reader, vm: VirtualMachine): Promise<Expansion> {
  if (!hasParts(vm)) return { vm, causes: [] };
  return expandedBy(vm, await readParts(vm, reader.find.bind(reader)));
}

/** The VM with the names that its volumes say. Where nobody serves a kind of CDI's, it has no objects. */
export function inferencesOf(reader: Reader, vm: VirtualMachine): Promise<InferredVm> {
  return inferParts(vm, (type, key) =>
    reader.find(type, key).catch((error: unknown) => {
      if (!isAppError(error, "KUBE_NOT_FOUND")) throw error;
      return undefined;
    }),
  );
}
