// SPDX-License-Identifier: Apache-2.0
// How is foreign text shown, so that nothing in it is obeyed and none of it takes the page? Pure.

/** What a browser obeys instead of showing: control characters, marks of writing direction, Unicode's ends of lines. */
const OBEYED = /[\p{Cc}\p{Bidi_Control}\u2028\u2029]/gu;
/** Longest text that is shown where it is one of many, characters. */
const SHORT = 80;
/** The same, where it is what is looked at. */
const LONG = 2000;

function escape(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

function cut(text: string, most: number): string {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

/** One line, of at most 80 characters. */
export function short(text: string | undefined): string {
  return cut(text ?? "", SHORT).replace(OBEYED, escape);
}

/** Text that may be long, as one line of at most 2,000 characters. */
export function long(text: string | undefined): string {
  return cut(text ?? "", LONG).replace(OBEYED, escape);
}

/** Lines of our own making around foreign words: their ends stay, all else is shown. */
export function lines(text: string): string {
  return text
    .split("\n")
    .map((line) => line.replace(OBEYED, escape))
    .join("\n");
}
