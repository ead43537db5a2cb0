// SPDX-License-Identifier: Apache-2.0
// What a round has found, told once: when it comes, when its words change, and when it is over.
import type { KubeObject } from "@patchbay/api";
import { messageOf } from "@patchbay/core";
import { keyOf, printKey } from "@patchbay/kube";
import type { Deps } from "../../deps.ts";

/** Something that is not as it should be. */
export interface Finding {
  /** Names it in every round. */
  readonly key: string;
  /** Who is told; absent: only the log is. */
  readonly object?: KubeObject;
  /** Which part of the object. */
  readonly about: string;
  readonly reason: string;
  /** What it is about, in words. */
  readonly subject: string;
  readonly error: unknown;
  /** Reason and words of its end. */
  readonly over: { readonly reason: string; readonly message: string };
}

function nameOf({ object, key }: Finding): string {
  return object === undefined ? key : printKey(keyOf(object));
}

function sayOf({ subject, error }: Finding): string {
  return `${subject}: ${messageOf(error)}`;
}

/** Tells what is new of what was found now, and what of before is over. */
export function tellChanges(
  before: ReadonlyMap<string, Finding>,
  now: ReadonlyMap<string, Finding>,
  { events, log }: Pick<Deps, "events" | "log">,
): void {
  for (const [key, finding] of now) {
    const { object, about, reason } = finding;
    const message = sayOf(finding);
    const known = before.get(key);
    if (known !== undefined && sayOf(known) === message) continue;
    log.warn("upkeep has found something", {
      object: nameOf(finding),
      step: reason,
      reason: message,
    });
    if (object !== undefined) events.record(object, { type: "Warning", reason, message, about });
  }
  for (const [key, finding] of before) {
    const { object, about, over } = finding;
    if (now.has(key)) continue;
    log.info("what upkeep found is over", {
      object: nameOf(finding),
      step: over.reason,
      reason: over.message,
    });
    if (object !== undefined) events.record(object, { type: "Normal", ...over, about });
  }
}
