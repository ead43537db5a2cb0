// SPDX-License-Identifier: Apache-2.0
// Escapes foreign text, so that it cannot control the terminal or reverse the writing direction. It imports no large modules.
import type { Output } from "../command.ts";

/** Control characters, marks of writing direction, and Unicode's line separators. */
const CONTROL_CHARACTERS = /[\p{Cc}\p{Bidi_Control}\u2028\u2029]/gu;
/** Escapes of the two control characters that plain text may contain. */
const LAYOUT_ESCAPES: Readonly<Record<string, string>> = {
  "\n": String.raw`\n`,
  "\t": String.raw`\t`,
};

/** Escapes in JSON's notation, so that JSON remains valid. */
function escape(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

/** Escapes all control characters except line ends and tabs. */
function escapeControls(text: string): string {
  return text.replace(CONTROL_CHARACTERS, (character) =>
    LAYOUT_ESCAPES[character] === undefined ? escape(character) : character,
  );
}

/** Escapes all control characters, so that foreign text cannot imitate a line of this program. */
export function oneLine(text: string): string {
  return text.replace(
    CONTROL_CHARACTERS,
    (character) => LAYOUT_ESCAPES[character] ?? escape(character),
  );
}

/** Indents all lines except the first, so that foreign text cannot imitate a line of this program. */
export function indented(text: string, indent: string): string {
  return text.split("\n").map(oneLine).join(`\n${indent}`);
}

/** Returns a stream that escapes everything that is written to it. */
export function safeOutput(stream: Output): Output {
  return {
    write: (text) => {
      stream.write(escapeControls(text));
    },
  };
}
