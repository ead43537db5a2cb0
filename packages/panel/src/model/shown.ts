// SPDX-License-Identifier: Apache-2.0
// Escapes and shortens untrusted text for display.

/** Pattern of characters that browsers interpret: control characters, bidirectional marks, Unicode line ends. */
const INTERPRETED_CHARACTERS = /[\p{Cc}\p{Bidi_Control}\u2028\u2029]/gu;
const SHORT_MAX = 80;
const LONG_MAX = 2000;

function escapeCharacter(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

function truncate(text: string, lengthMax: number): string {
  return text.length > lengthMax ? `${text.slice(0, lengthMax - 1)}…` : text;
}

/** Returns one line, shortened to 80 characters before escaping. */
export function toShortText(text: string | undefined): string {
  return truncate(text ?? "", SHORT_MAX).replace(INTERPRETED_CHARACTERS, escapeCharacter);
}

/** Returns one line, shortened to 2,000 characters before escaping. */
export function toLongText(text: string | undefined): string {
  return truncate(text ?? "", LONG_MAX).replace(INTERPRETED_CHARACTERS, escapeCharacter);
}

/** Escapes each line of Patchbay's own text, which may contain untrusted text. Preserves line ends. */
export function escapeLines(text: string): string {
  return text
    .split("\n")
    .map((line) => line.replace(INTERPRETED_CHARACTERS, escapeCharacter))
    .join("\n");
}
