// SPDX-License-Identifier: Apache-2.0
// How does the page get in? By the token in its address, once; the key that it gets is kept in memory only.

/** A page that may ask. */
export interface Session {
  readonly key: string;
  /** The API server's address, for people. */
  readonly server: string;
  /** Where a new VM goes when nobody says otherwise. */
  readonly namespace: string;
}

const TOKEN = /^#token=([\w-]+)$/;

/** Exchanges the token, which is gone from the address then; undefined where there is none, or it was used. */
export async function openSession(): Promise<Session | undefined> {
  const [, token] = TOKEN.exec(location.hash) ?? [];
  history.replaceState(null, "", "/");
  if (token === undefined) return undefined;
  const response = await fetch("/session", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ token }),
  });
  return response.ok ? ((await response.json()) as Session) : undefined; // the panel's own server
}
