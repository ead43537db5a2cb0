// SPDX-License-Identifier: Apache-2.0
// How is foreign text shown without moving the cursor, setting the title or turning the line around? Loads nothing.
import type { Output } from "../command.ts";

/** What a terminal obeys instead of showing: control characters, marks of writing direction, Unicode's ends of lines. */
const OBEYED = /[\p{Cc}\p{Bidi_Control}\u2028\u2029]/gu;
/** The two that a text of several lines is made of. */
const LAYOUT: Readonly<Record<string, string>> = { "\n": String.raw`\n`, "\t": String.raw`\t` };

/** As JSON writes it, so that JSON stays what it was. */
function escape(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

/** A text of several lines in which nothing but their ends and tabs is obeyed. */
function printable(text: string): string {
  return text.replace(OBEYED, (character) =>
    LAYOUT[character] === undefined ? escape(character) : character,
  );
}

/** The same as one line: what is no line of ours must not look like one. */
export function oneLine(text: string): string {
  return text.replace(OBEYED, (character) => LAYOUT[character] ?? escape(character));
}

/** A text whose further lines are set in, so that none of them looks like the first word of ours. */
export function indented(text: string, indent: string): string {
  return text.split("\n").map(oneLine).join(`\n${indent}`);
}

/** A stream for lines: whatever is written, objects' own words among it, is only shown. */
export function safeOutput(stream: Output): Output {
  return {
    write: (text) => {
      stream.write(printable(text));
    },
  };
}
