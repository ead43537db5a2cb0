// SPDX-License-Identifier: Apache-2.0
// How does the page get in? By the token in its address, once; the key that it gets is kept in memory only.

import { again } from "./again.ts";

/** A page that may ask. */
export interface Session {
  readonly key: string;
  /** The API server's address, for people. */
  readonly server: string;
  /** Where a new VM goes when nobody says otherwise. */
  readonly namespace: string;
}

const TOKEN = /^#token=([\w-]+)$/;

/** Why a page is not in. */
export type Outside = "used" | "unanswered";

/** Exchanges the token, which is gone from the address then. The answer may be lost: whose token it was can ask again. */
export async function openSession(): Promise<Session | Outside> {
  const [, token] = TOKEN.exec(location.hash) ?? [];
  history.replaceState(null, "", "/");
  if (token === undefined) return "used";
  const page = crypto.randomUUID();
  try {
    return await again(async () => {
      const response = await fetch("/session", {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ token, page }),
      });
      return response.ok ? ((await response.json()) as Session) : "used"; // the panel's own server
    });
  } catch {
    return "unanswered";
  }
}
