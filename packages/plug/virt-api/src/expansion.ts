// SPDX-License-Identifier: Apache-2.0
// A VM with what it takes from its instancetype and its preference, as they are now.
import type { VirtualMachine } from "@patchbay/api";
import { expandedBy, hasParts, readParts, type Expansion } from "@patchbay/core";
import type { Reader } from "@patchbay/kube";

/** Nothing is read for a VM that takes nothing. */
export async function expansionOf(reader: Reader, vm: VirtualMachine): Promise<Expansion> {
  if (!hasParts(vm)) return { vm, causes: [] };
  return expandedBy(vm, await readParts(vm, reader.find.bind(reader)));
}
