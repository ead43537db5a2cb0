// SPDX-License-Identifier: Apache-2.0
// What the API server refuses to virt-controller: told on the object before it is tried again.
import { isAppError, type AppError, type RefusedWrite } from "@patchbay/core";

/** A refused write and what is told of it. */
export interface Refused {
  readonly error: AppError;
  readonly refusal: RefusedWrite;
}

/**
 * Runs `act`; a write that the API server refuses (admission, quota, pod security, rights) is returned, so that it can be
 * told; everything else is thrown.
 */
export async function catchRefusal(
  verb: RefusedWrite["verb"],
  act: () => Promise<void>,
): Promise<Refused | undefined> {
  try {
    await act();
    return undefined;
  } catch (error) {
    if (!isAppError(error, "KUBE_FORBIDDEN") && !isAppError(error, "KUBE_REFUSED")) throw error;
    return { error, refusal: { verb, message: error.message } };
  }
}
