// SPDX-License-Identifier: Apache-2.0
// Which descriptors does a program that is started here get? Those that are handed to it, and no other.
import { osNative } from "../native.ts";

let isSealed = false;

/**
 * Keeps from all programs that are started later what whoever started this process had left open: Node.js seals what
 * it opens itself, and of what it inherits only the first few. Before each start; the first call does it.
 */
export function sealDescriptors(): void {
  if (isSealed) return;
  osNative().sealDescriptors();
  isSealed = true;
}
