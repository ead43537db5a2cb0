// SPDX-License-Identifier: Apache-2.0
// Escapes untrusted text, so that it cannot control the terminal. Must import no large modules, because every command loads this module.
import type { Output } from "../command.ts";

/** Control characters, Unicode's bidirectional controls, and Unicode's line separators. */
const CONTROL_CHARACTERS = /[\p{Cc}\p{Bidi_Control}\u2028\u2029]/gu;
/** Escape sequences for the two control characters that formatted output may contain. */
const LAYOUT_ESCAPES: Readonly<Record<string, string>> = {
  "\n": String.raw`\n`,
  "\t": String.raw`\t`,
};

/** Escapes a character in JSON's notation, so that output in JSON remains valid. */
function escape(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

function escapeControls(text: string): string {
  return text.replace(CONTROL_CHARACTERS, (character) =>
    LAYOUT_ESCAPES[character] === undefined ? escape(character) : character,
  );
}

/** Escapes all control characters, so that untrusted text cannot imitate a line of this program's output. */
export function escapeLine(text: string): string {
  return text.replace(
    CONTROL_CHARACTERS,
    (character) => LAYOUT_ESCAPES[character] ?? escape(character),
  );
}

/** Escapes the lines and indents all except the first, so that untrusted text cannot imitate a line of this program's output. */
export function indentLines(text: string, indent: string): string {
  return text.split("\n").map(escapeLine).join(`\n${indent}`);
}

/** Returns a stream that escapes control characters, except line ends and tabs, in all text that is written to it. */
export function safeOutput(stream: Output): Output {
  return {
    write: (text) => {
      stream.write(escapeControls(text));
    },
  };
}
