// SPDX-License-Identifier: Apache-2.0
import type { JSX } from "preact";

const OUTLINE =
  "M2.5 1.5h15a1 1 0 0 1 1 1v10a1 1 0 0 1-1 1h-3v2h-9v-2h-3a1 1 0 0 1-1-1v-10a1 1 0 0 1 1-1z";
const CONTACTS = [5, 7, 9, 11, 13, 15];

export function Socket({ isUsed }: { readonly isUsed: boolean }): JSX.Element {
  return (
    <svg class={`socket-glyph ${isUsed ? "used" : "free"}`} viewBox="0 0 20 17" aria-hidden="true">
      <path d={OUTLINE} class="socket-outline" />
      {CONTACTS.map((x) => (
        <path key={x} d={`M${String(x)} 3v3`} class="socket-contact" />
      ))}
      {isUsed ? <rect x="4.5" y="5" width="11" height="8" rx="1" class="socket-plug" /> : null}
    </svg>
  );
}

export function Logo(): JSX.Element {
  return (
    <svg class="logo" viewBox="0 0 34 24" aria-hidden="true">
      <path d="M7 8c0 18 20 18 20 0" class="logo-cable" />
      <circle cx="7" cy="7" r="5" class="logo-jack" />
      <circle cx="27" cy="7" r="5" class="logo-jack" />
      <circle cx="7" cy="7" r="2" class="logo-hole" />
      <circle cx="27" cy="7" r="2" class="logo-hole" />
    </svg>
  );
}
