// SPDX-License-Identifier: Apache-2.0
// What is a request about? One of few words, for counting.
import type { RequestListener } from "node:http";
import type { Metrics } from "@patchbay/telemetry";
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

/** Counts each request before it is answered. */
export function counted(
  answer: RequestListener,
  metrics: Pick<Metrics, "countServed">,
): RequestListener {
  return (request, response) => {
    metrics.countServed(callNameOf(request.url ?? ""));
    answer(request, response);
  };
}
