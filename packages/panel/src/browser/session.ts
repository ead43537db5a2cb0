// SPDX-License-Identifier: Apache-2.0
// Login with the token in the page's address. Only one browser can use a token.

import { retry } from "./timing.ts";

export interface Session {
  readonly key: string;
  readonly server: string;
  readonly namespace: string;
}

/** Data about the link that this browser opened last. The command `patchbay ui` prints the link. */
interface StoredLink {
  readonly token: string;
  /** Random secret that identifies this browser. The token is accepted only together with this secret. */
  readonly browser: string;
}

const TOKEN = /^#token=([\w-]+)$/;
/** Key in the local storage, which only pages of this origin can read. */
const STORAGE_KEY = "patchbay-link";

export type AccessFailure = "used" | "unanswered";

function readStoredLink(): StoredLink | undefined {
  const stored = localStorage.getItem(STORAGE_KEY);
  return stored === null ? undefined : (JSON.parse(stored) as StoredLink); // The cast is safe, because only `openSession` writes the value.
}

/** Removes the token from the page's address and opens a session with it. If the address has no token, uses the stored token. */
export async function openSession(): Promise<Session | AccessFailure> {
  const stored = readStoredLink();
  const token = TOKEN.exec(location.hash)?.[1] ?? stored?.token;
  history.replaceState(null, "", "/");
  if (token === undefined) return "used";
  const link: StoredLink = { token, browser: stored?.browser ?? crypto.randomUUID() };
  try {
    const session = await retry(async () => {
      const response = await fetch("/session", {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(link),
      });
      return response.ok ? ((await response.json()) as Session) : "used";
    });
    if (session === "used") localStorage.removeItem(STORAGE_KEY);
    else localStorage.setItem(STORAGE_KEY, JSON.stringify(link));
    return session;
  } catch {
    return "unanswered";
  }
}
