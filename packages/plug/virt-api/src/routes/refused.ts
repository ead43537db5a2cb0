// SPDX-License-Identifier: Apache-2.0
// What KubeVirt does and Patchbay does not: who asks for it is told so, whatever they ask it of.
import { toFailureAnswer } from "../http/answers.ts";
import type { CallHandler } from "./call.ts";

/** Answers 400, as KubeVirt does where a feature gate is off; reads nothing and changes nothing. */
export function refused(feature: string): CallHandler {
  const message = `Patchbay does not have ${feature}; nothing was changed`;
  return () => Promise.resolve(toFailureAnswer({ code: 400, message }));
}
