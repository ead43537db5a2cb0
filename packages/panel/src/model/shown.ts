// SPDX-License-Identifier: Apache-2.0
// Escapes foreign text for display, and limits its length. Pure.

/** Characters that browsers interpret: control characters, bidirectional marks, Unicode line ends. */
const INTERPRETED_CHARACTERS = /[\p{Cc}\p{Bidi_Control}\u2028\u2029]/gu;
const SHORT_MAX = 80;
const LONG_MAX = 2000;

function escape(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

function cut(text: string, most: number): string {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

/** One line of at most 80 characters. */
export function short(text: string | undefined): string {
  return cut(text ?? "", SHORT_MAX).replace(INTERPRETED_CHARACTERS, escape);
}

/** One line of at most 2,000 characters. */
export function long(text: string | undefined): string {
  return cut(text ?? "", LONG_MAX).replace(INTERPRETED_CHARACTERS, escape);
}

/** Preserves line ends, for Patchbay's own text around foreign text. */
export function lines(text: string): string {
  return text
    .split("\n")
    .map((line) => line.replace(INTERPRETED_CHARACTERS, escape))
    .join("\n");
}
