// SPDX-License-Identifier: Apache-2.0
// What is a user told of a pod that may not run on any machine of this kind?
import type { Pod } from "@patchbay/api";
import type { Reason } from "../pods/facts.ts";
import { podProblems } from "./pod-policy.ts";

/** Names all fields that are in the way; undefined: none is. */
export function forbid(pod: Pod): Reason | undefined {
  const problems = podProblems(pod);
  if (problems.length === 0) return undefined;
  const message = problems.map(({ field, message }) => `${field}: ${message}`).join("; ");
  return { reason: "PodForbidden", message };
}
