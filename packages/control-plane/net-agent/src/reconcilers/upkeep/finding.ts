// SPDX-License-Identifier: Apache-2.0
// Problems that the hourly upkeep finds. A problem is reported when it appears, when its message changes, and when it is resolved.
import type { KubeObject } from "@patchbay/api/kubernetes";
import { messageOf } from "@patchbay/base";
import { keyOf, printKey } from "@patchbay/kube";
import type { Deps } from "../../deps.ts";

export interface Finding {
  readonly key: string;
  /** Object of the event; unset if the finding is only logged. */
  readonly object?: KubeObject;
  readonly about: string;
  readonly reason: string;
  readonly subject: string;
  readonly error: unknown;
  readonly resolved: { readonly reason: string; readonly message: string };
}

function describeObject({ object, key }: Finding): string {
  return object === undefined ? key : printKey(keyOf(object));
}

function describeFinding({ subject, error }: Finding): string {
  return `${subject}: ${messageOf(error)}`;
}

export function reportChanges(
  previous: ReadonlyMap<string, Finding>,
  current: ReadonlyMap<string, Finding>,
  { events, log }: Pick<Deps, "events" | "log">,
): void {
  for (const [key, finding] of current) {
    const { object, about, reason } = finding;
    const message = describeFinding(finding);
    const previousFinding = previous.get(key);
    if (previousFinding !== undefined && describeFinding(previousFinding) === message) continue;
    log.warn("upkeep found a problem", {
      object: describeObject(finding),
      step: reason,
      reason: message,
    });
    if (object !== undefined) events.record(object, { type: "Warning", reason, message, about });
  }
  for (const [key, finding] of previous) {
    const { object, about, resolved } = finding;
    if (current.has(key)) continue;
    log.info("a problem that upkeep found is resolved", {
      object: describeObject(finding),
      step: resolved.reason,
      reason: resolved.message,
    });
    if (object !== undefined) events.record(object, { type: "Normal", ...resolved, about });
  }
}
