// SPDX-License-Identifier: Apache-2.0
// Creates the objects of a VM. Sends dry runs of all objects first, so that a rejected object leaves no other object behind.
import { PERSISTENT_VOLUME_CLAIMS, SECRETS, VIRTUAL_MACHINES } from "@patchbay/api";
import type { CallOptions, Store } from "@patchbay/core/interfaces";
import { withOwner, type VmObjects } from "@patchbay/core/new-vm";

/** @throws AppError with KUBE_ALREADY_EXISTS, KUBE_REFUSED */
export async function createObjects(
  store: Store,
  { claims, vm, secret }: VmObjects,
  options: CallOptions,
): Promise<void> {
  const dryRunOptions = { ...options, dryRun: true };
  await store.create(VIRTUAL_MACHINES, vm, dryRunOptions);
  await store.create(SECRETS, secret, dryRunOptions);
  for (const claim of claims) await store.create(PERSISTENT_VOLUME_CLAIMS, claim, dryRunOptions);
  for (const claim of claims) await store.create(PERSISTENT_VOLUME_CLAIMS, claim, options);
  const created = await store.create(VIRTUAL_MACHINES, vm, options);
  await store.create(SECRETS, withOwner(created, secret), options);
}
