// SPDX-License-Identifier: Apache-2.0
// What does the dry run say of a change: at once, at the next start, or refused, and why? Pure.
import type { Change } from "./changes.ts";
import { long } from "./shown.ts";

/** An answer of the API server. */
export interface Answer {
  readonly status: number;
  /** As it was sent: JSON, mostly. */
  readonly text: string;
  readonly warnings: readonly string[];
}

/** What would become of a change. */
export interface Verdict {
  readonly kind: "live" | "start" | "refused";
  /** In words. */
  readonly text: string;
}

interface Status {
  readonly kind?: string;
  readonly message?: string;
  readonly details?: { readonly causes?: readonly { readonly message?: string }[] };
}

function statusOf(text: string): Status {
  try {
    const parsed: unknown = JSON.parse(text);
    return typeof parsed === "object" && parsed !== null ? parsed : {};
  } catch {
    return { message: text };
  }
}

/** The words of an answer: its message, and the causes that it does not name. */
export function wordsOf({ text }: Answer): string {
  const { kind, message = "", details } = statusOf(text);
  if (kind !== undefined && kind !== "Status") return "";
  const causes = (details?.causes ?? []).flatMap((cause) => cause.message ?? []);
  return long([message, ...causes.filter((cause) => !message.includes(cause))].join("; "));
}

/** Whether the answer is a refusal. */
export function isRefusal({ status }: Answer): boolean {
  return status >= 300;
}

/** Words of virt-api about a change that waits. */
const LATER = /when the VM starts|next start/;

/** What the answers to a dry run mean; `isLive`: the guest runs. */
export function verdictOf(change: Change, answers: readonly Answer[], isLive: boolean): Verdict {
  const refused = answers.find(isRefusal);
  if (refused !== undefined) return { kind: "refused", text: wordsOf(refused) };
  const said = answers.map(wordsOf).filter((words) => words !== "");
  const warned = answers.flatMap(({ warnings }) => warnings.map(long));
  const text = [...said, ...warned].join("; ");
  if (change.kind === "power" || change.kind === "create") return { kind: "live", text };
  const isLater = !isLive || LATER.test(text);
  return { kind: isLater ? "start" : "live", text };
}
