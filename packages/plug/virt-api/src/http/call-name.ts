// SPDX-License-Identifier: Apache-2.0
// What is a request about? One of few words, for counting.
import type { RequestListener } from "node:http";
import type { Metrics } from "@patchbay/telemetry";
import { ROUTES } from "../routes/table.ts";

const CALLS: ReadonlySet<string> = new Set([
  "mutate",
  "validate",
  ...ROUTES.map(({ call }) => call),
]);

/** Where the name stands in `/apis/GROUP/VERSION/namespaces/NAMESPACE/RESOURCE/NAME/SUBRESOURCE`. */
const SUBRESOURCE_AT = 8;

/** `mutate`, `validate`, the subresource, or `other`. */
export function callNameOf(url: string): string {
  const [path = ""] = url.split("?");
  const parts = path.split("/");
  const name = parts[SUBRESOURCE_AT] ?? parts.at(-1) ?? "";
  return CALLS.has(name) ? name : "other";
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
