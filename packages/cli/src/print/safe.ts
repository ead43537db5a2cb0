// SPDX-License-Identifier: Apache-2.0
// Escapes foreign text, so that it cannot control the terminal or reverse the writing direction. It imports nothing large.
import type { Output } from "../command.ts";

/** Control characters, marks of writing direction, and Unicode's line separators. */
const CONTROL_CHARACTERS = /[\p{Cc}\p{Bidi_Control}\u2028\u2029]/gu;
/** The two control characters of plain text. */
const LAYOUT: Readonly<Record<string, string>> = { "\n": String.raw`\n`, "\t": String.raw`\t` };

/** In JSON's notation, so that JSON stays valid. */
function escape(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

/** Escapes everything except line ends and tabs. */
function escapeControls(text: string): string {
  return text.replace(CONTROL_CHARACTERS, (character) =>
    LAYOUT[character] === undefined ? escape(character) : character,
  );
}

/** Escapes line ends and tabs too, so that foreign text cannot imitate a line of this program. */
export function oneLine(text: string): string {
  return text.replace(CONTROL_CHARACTERS, (character) => LAYOUT[character] ?? escape(character));
}

/** Indents all lines but the first, so that foreign text cannot imitate a line of this program. */
export function indented(text: string, indent: string): string {
  return text.split("\n").map(oneLine).join(`\n${indent}`);
}

/** A stream that escapes everything that is written to it. */
export function safeOutput(stream: Output): Output {
  return {
    write: (text) => {
      stream.write(escapeControls(text));
    },
  };
}
