// SPDX-License-Identifier: Apache-2.0
// What does the server say beside its answers? `Warning: 299` headers: a field that it dropped, an old API.
import type { Clock, Logger } from "@patchbay/core/ports";
import { createTokenBuckets } from "../pace/token-buckets.ts";

/** The same words are logged once an hour. */
const REPEATS = { burst: 1, refillMs: 3_600_000 };

/** One warning; several may share a header. Source: RFC 7234 5.5, Kubernetes apimachinery net.ParseWarningHeaders. */
const WARNING = /299 \S+ "((?:[^"\\]|\\.)*)"/g;

/** The texts of `Warning` headers with code 299. */
export function parseWarnings(header: string | readonly string[] | undefined): readonly string[] {
  const values = typeof header === "string" ? [header] : (header ?? []);
  return values.flatMap((value) =>
    [...value.matchAll(WARNING)].map(([, text = ""]) => text.replace(/\\(.)/g, "$1")),
  );
}

/** What was asked when the server warned. */
export interface Warned {
  readonly method: string;
  readonly path: string;
}

/** Tells what a server warns of. */
export type WarningLog = (
  header: string | readonly string[] | undefined,
  { method, path }: Warned,
) => void;

/** A log of warnings, in which the same words come once an hour. */
export function createWarningLog(logger: Logger, clock: Clock): WarningLog {
  const buckets = createTokenBuckets(clock, REPEATS);
  return (header, { method, path }) => {
    for (const reason of parseWarnings(header)) {
      if (!buckets.take(reason)) continue;
      logger.warn("the API server sent a warning", { reason, method, path });
    }
  };
}
