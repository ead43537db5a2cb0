// SPDX-License-Identifier: Apache-2.0
// As whom does a pod ask a registry? By the secrets that it names.
import { SECRETS, type Pod, type Secret } from "@patchbay/api";
import type { RegistryCredentials, Store } from "@patchbay/core/ports";
import { credentialsFor } from "./credentials.ts";

/** A secret that is not there is passed over, as a kubelet does: the registry may ask for none. */
async function readPullSecrets(store: Store, pod: Pod): Promise<readonly Secret[]> {
  const { namespace = "" } = pod.metadata;
  const names = (pod.spec.imagePullSecrets ?? []).map(({ name = "" }) => name);
  const found = names.map((name) => store.find(SECRETS, { namespace, name }));
  return (await Promise.all(found)).filter((secret) => secret !== undefined);
}

/**
 * The most fitting first; none: the registry is asked as nobody.
 * @throws AppError with IMAGE_NAME_INVALID
 */
export async function pullCredentialsOf(
  store: Store,
  pod: Pod,
  reference: string,
): Promise<readonly RegistryCredentials[]> {
  return credentialsFor(reference, await readPullSecrets(store, pod));
}
