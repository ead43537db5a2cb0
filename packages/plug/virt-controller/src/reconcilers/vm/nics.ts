// SPDX-License-Identifier: Apache-2.0
// Writes networks and ifaces into the VMI of a VM.
import { VIRTUAL_MACHINE_INSTANCES, type VirtualMachineInstance } from "@patchbay/api";
import {
  isAppError,
  isEqual,
  nicsOf,
  nicsPatch,
  withPlug,
  type Nics,
  type NicsChange,
} from "@patchbay/core";
import { keyOf } from "@patchbay/kube";
import type { Deps } from "../../deps.ts";

async function write(vmi: VirtualMachineInstance, to: Nics, deps: Deps): Promise<typeof vmi> {
  const operations = nicsPatch({ object: vmi, base: "/spec", spec: vmi.spec }, to);
  const patch = { type: "json", operations } as const;
  const written = await deps.store.patch(VIRTUAL_MACHINE_INSTANCES, keyOf(vmi), patch);
  deps.ownWrites.note(written);
  return written;
}

function isRefusal(error: unknown): boolean {
  return isAppError(error, "KUBE_REFUSED") || isAppError(error, "KUBE_FORBIDDEN");
}

/** Change by change, so that what is refused keeps nothing else from being done. */
async function writeOneByOne(
  vmi: VirtualMachineInstance,
  { kept, plugs }: NicsChange,
  deps: Deps,
): Promise<readonly unknown[]> {
  const refusals: unknown[] = [];
  let current = vmi;
  const changes = [() => kept, ...plugs.map((plug) => () => withPlug(nicsOf(current.spec), plug))];
  for (const change of changes) {
    const to = change();
    if (isEqual(nicsOf(current.spec), to)) continue;
    try {
      current = await write(current, to, deps);
    } catch (error) {
      if (!isRefusal(error)) throw error;
      refusals.push(error);
    }
  }
  return refusals;
}

/**
 * Makes the change in one write, or in several where one is refused.
 * @throws AggregateError of what was refused; and what the store throws.
 */
export async function changeNics(
  vmi: VirtualMachineInstance,
  change: NicsChange,
  deps: Deps,
): Promise<void> {
  const { kept, plugs } = change;
  try {
    await write(vmi, plugs.reduce(withPlug, kept), deps);
  } catch (error) {
    const parts = plugs.length + (isEqual(nicsOf(vmi.spec), kept) ? 0 : 1);
    if (!isRefusal(error) || parts < 2) throw error;
    const refusals = await writeOneByOne(vmi, change, deps);
    if (refusals.length > 0) throw new AggregateError(refusals, "some were refused");
  }
}
