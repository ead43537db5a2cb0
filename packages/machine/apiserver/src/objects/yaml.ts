// SPDX-License-Identifier: Apache-2.0
// YAML text to values and back. Few requests bring YAML: the library is loaded with the first.
import { createRequire } from "node:module";
import type * as Yaml from "yaml";
import { extentFault } from "./extent.ts";
import { parseJson } from "./json.ts";

const require = createRequire(import.meta.url);
let loaded: typeof Yaml | undefined;

function library(): typeof Yaml {
  // What the package exports is what its types say.
  loaded ??= require("yaml") as typeof Yaml;
  return loaded;
}

/**
 * The library takes a hundred times as long as for JSON, for what is wrong as well, and in part the square of it: a text at
 * these bounds takes 0.14 s at most, of those that were tried. No tool sends long YAML: kubectl makes JSON of it.
 */
const PARTS_MAX = 1500;
const TEXT_MAX_LENGTH = 64 * 1024;
/** The library calls itself a few times for each level; V8 may end a process that has no stack left. */
const DEPTH_MAX = 100;
/** Each time that an alias stands for its anchor, the whole of it is there once more. */
const ALIASES_MAX = 10;
/** Whoever wants more than that as YAML, or deeper, gets it in YAML's flow style, which is JSON. */
const PRINTED_MAX_LENGTH = 64 * 1024;

/** All that has a meaning in YAML besides spaces, or is wrong there. Source: YAML 1.2.2, 5.3 Indicator Characters. */
const PART = /[\n\r\t,[\]{}&*!|>'"%@`\\?#:-]/g;

/** Whether reading the text would keep others waiting. */
export function isTooLong(text: string): boolean {
  if (text.length > TEXT_MAX_LENGTH) {
    return true;
  }
  let parts = 0;
  PART.lastIndex = 0;
  while (PART.test(text)) {
    parts += 1;
    if (parts > PARTS_MAX) {
      PART.lastIndex = 0;
      return true;
    }
  }
  return false;
}

/** The tokens right below one. */
function tokensIn(token: Yaml.CST.Token): Yaml.CST.Token[] {
  if (token.type === "document") {
    return token.value === undefined ? [] : [token.value];
  }
  return "items" in token
    ? token.items.flatMap(({ key, value }) => [key, value].filter((below) => isToken(below)))
    : [];
}

function isToken(token: Yaml.CST.Token | null | undefined): token is Yaml.CST.Token {
  return token !== null && token !== undefined;
}

/** Throws an Error where a token has more below it than can be followed. Level by level: it calls itself nowhere. */
function checkDepth(tokens: readonly Yaml.CST.Token[]): void {
  let level = tokens;
  for (let depth = 0; level.length > 0; depth += 1) {
    if (depth > DEPTH_MAX) {
      throw new Error("yaml: exceeded max depth");
    }
    level = level.flatMap(tokensIn);
  }
}

/** Throws an Error where the text is no YAML, names a key twice, or has a key that is no text. */
export function parseYaml(text: string): unknown {
  const { Composer, Parser } = library();
  const tokens = [...new Parser().parse(text)];
  checkDepth(tokens);
  const composer = new Composer({ prettyErrors: false, stringKeys: true });
  const [document, ...more] = composer.compose(tokens, true, text.length);
  const [error] = document?.errors ?? [];
  if (error !== undefined) {
    throw error;
  }
  if (more.length > 0) {
    throw new Error("yaml: more than one document");
  }
  return document?.toJS({ maxAliasCount: ALIASES_MAX });
}

/** JSON text as YAML. */
export function printYaml(json: string): string {
  const isLong = json.length > PRINTED_MAX_LENGTH;
  return isLong || extentFault(json, DEPTH_MAX) !== undefined
    ? json
    : library().stringify(parseJson(json));
}
