// SPDX-License-Identifier: Apache-2.0
// Tells in the KubeVirt object how the installation is.
import { KUBEVIRTS, type ApiService, type KubeVirt } from "@patchbay/api";
import { installationStatus, statusPatch } from "@patchbay/core";
import { done, keyOf, printTime, type Next } from "@patchbay/kube";
import type { Cache, Clock, Store } from "@patchbay/core/ports";

/** What it rests on. */
export interface InstallationDeps {
  readonly kubevirts: Cache<KubeVirt>;
  /** virt-api's alone. */
  readonly apiServices: Cache<ApiService>;
  readonly store: Pick<Store, "patch">;
  readonly clock: Pick<Clock, "now">;
  /** Of this program. */
  readonly version: string;
}

/** One write at most, of the object whose configuration counts; safe to repeat. */
export async function reconcileInstallation(deps: InstallationDeps): Promise<Next> {
  const [kubevirt] = deps.kubevirts.list();
  if (kubevirt === undefined) return done();
  const [apiService] = deps.apiServices.list();
  const facts = { kubevirt, apiService, version: deps.version };
  const next = installationStatus(facts, printTime(deps.clock.now()));
  const operations = statusPatch(kubevirt, next);
  if (operations.length > 0) {
    const patch = { type: "json", operations } as const;
    await deps.store.patch(KUBEVIRTS, keyOf(kubevirt), patch, { subresource: "status" });
  }
  return done();
}
