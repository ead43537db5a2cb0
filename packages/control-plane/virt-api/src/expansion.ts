// SPDX-License-Identifier: Apache-2.0
import type { VirtualMachine } from "@patchbay/api";
import {
  expandWith,
  hasMatcher,
  inferInstancetypes,
  readInstancetypes,
  type Expansion,
  type InferredVm,
} from "@patchbay/core/instancetype";
import { isAppError } from "@patchbay/base";
import type { Reader } from "@patchbay/kube";

export async function expandVm(reader: Reader, vm: VirtualMachine): Promise<Expansion> {
  if (!hasMatcher(vm)) return { vm, causes: [] };
  return expandWith(vm, await readInstancetypes(vm, reader.find.bind(reader)));
}

/** Infers instancetype and preference from volumes. Objects of kinds that the cluster does not serve count as missing. */
export function inferVm(reader: Reader, vm: VirtualMachine): Promise<InferredVm> {
  return inferInstancetypes(vm, (type, key) =>
    reader.find(type, key).catch((error: unknown) => {
      if (!isAppError(error, "KUBE_NOT_FOUND")) throw error;
      return undefined;
    }),
  );
}
