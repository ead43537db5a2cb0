// SPDX-License-Identifier: Apache-2.0
// How does the page get in? By the token in its address, which one browser may use as long as the panel's server runs.

import { again } from "./again.ts";

/** A page that may ask. */
export interface Session {
  readonly key: string;
  /** The API server's address, for people. */
  readonly server: string;
  /** Where a new VM goes when nobody says otherwise. */
  readonly namespace: string;
}

/** What this browser keeps of the link that it used last. */
interface KeptLink {
  readonly token: string;
  /** What the browser calls itself: without it, its link is of no use to another one. */
  readonly browser: string;
}

const TOKEN = /^#token=([\w-]+)$/;
/** Only pages of this address and port can read it. */
const KEPT = "patchbay-link";

/** Why a page is not in. */
export type Outside = "used" | "unanswered";

function readKept(): KeptLink | undefined {
  const kept = localStorage.getItem(KEPT);
  return kept === null ? undefined : (JSON.parse(kept) as KeptLink); // written below
}

/**
 * Exchanges the token for a key, and takes it out of the address. A page that is loaded again, and another tab, use the token
 * that the browser kept.
 */
export async function openSession(): Promise<Session | Outside> {
  const kept = readKept();
  const token = TOKEN.exec(location.hash)?.[1] ?? kept?.token;
  history.replaceState(null, "", "/");
  if (token === undefined) return "used";
  const link: KeptLink = { token, browser: kept?.browser ?? crypto.randomUUID() };
  try {
    const session = await again(async () => {
      const response = await fetch("/session", {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(link),
      });
      return response.ok ? ((await response.json()) as Session) : "used"; // the panel's own server
    });
    if (session === "used") localStorage.removeItem(KEPT);
    else localStorage.setItem(KEPT, JSON.stringify(link));
    return session;
  } catch {
    return "unanswered";
  }
}
