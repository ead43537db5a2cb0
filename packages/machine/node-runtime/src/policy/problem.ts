// SPDX-License-Identifier: Apache-2.0
// How is it said what is wrong with a pod?

/** One reason why a pod is refused. */
export interface PodProblem {
  /** For example `spec.containers[0].securityContext.privileged`. */
  readonly field: string;
  readonly message: string;
}

/** None or one, for lists that are put together. */
export function problem(isBad: boolean, field: string, message: string): readonly PodProblem[] {
  return isBad ? [{ field, message }] : [];
}
