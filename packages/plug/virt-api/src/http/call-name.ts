// SPDX-License-Identifier: Apache-2.0
// What is a request about? One of few words, for counting.
import { SUBRESOURCES } from "../routes/discovery.ts";

const CALLS: ReadonlySet<string> = new Set([
  "mutate",
  "validate",
  ...Object.values(SUBRESOURCES).flat(),
]);

/** `mutate`, `validate`, the subresource, or `other`. */
export function callNameOf(url: string): string {
  const [path = ""] = url.split("?");
  const last = path.slice(path.lastIndexOf("/") + 1);
  return CALLS.has(last) ? last : "other";
}
