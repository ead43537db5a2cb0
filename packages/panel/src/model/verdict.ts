// SPDX-License-Identifier: Apache-2.0
// Verdicts of dry runs: whether a change applies immediately, applies at the next start, or is refused.
import type { Change } from "./changes.ts";
import { toLongText } from "./shown.ts";

export interface Answer {
  readonly status: number;
  readonly text: string;
  readonly warnings: readonly string[];
}

export interface Verdict {
  readonly kind: "live" | "start" | "refused";
  readonly text: string;
}

interface Status {
  readonly kind?: string;
  readonly message?: string;
  readonly details?: { readonly causes?: readonly { readonly message?: string }[] };
}

function parseStatus(text: string): Status {
  try {
    const parsed: unknown = JSON.parse(text);
    return typeof parsed === "object" && parsed !== null ? parsed : {};
  } catch {
    return { message: text };
  }
}

export function printMessage({ text }: Answer): string {
  const { kind, message = "", details } = parseStatus(text);
  if (kind !== undefined && kind !== "Status") return "";
  const causes = (details?.causes ?? []).flatMap((cause) => cause.message ?? []);
  return toLongText([message, ...causes.filter((cause) => !message.includes(cause))].join("; "));
}

export function isRefusal({ status }: Answer): boolean {
  return status >= 300;
}

/** Pattern of virt-api's messages about changes that apply later. */
const APPLIED_LATER = /when the VM starts|next start/;

export function isAppliedLater(text: string): boolean {
  return APPLIED_LATER.test(text);
}

export function toVerdict(change: Change, answers: readonly Answer[], isLive: boolean): Verdict {
  const refused = answers.find(isRefusal);
  if (refused !== undefined) return { kind: "refused", text: printMessage(refused) };
  const messages = answers.map(printMessage).filter((message) => message !== "");
  const dryRunWarnings = answers.flatMap(({ warnings }) => warnings.map(toLongText));
  const text = [...messages, ...dryRunWarnings].join("; ");
  if (change.kind === "power" || change.kind === "create") return { kind: "live", text };
  const isLater = !isLive || isAppliedLater(text);
  return { kind: isLater ? "start" : "live", text };
}
