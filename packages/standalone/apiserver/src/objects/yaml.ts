// SPDX-License-Identifier: Apache-2.0
// YAML request and response bodies. The library is loaded on first use, because few requests have YAML.
import { createRequire } from "node:module";
import type * as Yaml from "yaml";
import { extentFault } from "./extent.ts";
import { parseJson } from "./json.ts";

const require = createRequire(import.meta.url);
let library: typeof Yaml | undefined;

function loadLibrary(): typeof Yaml {
  library ??= require("yaml") as typeof Yaml;
  return library;
}

/**
 * Limits on YAML input. The library is about 100 times slower than JSON.parse, and takes quadratic time for some input.
 * At these limits, the slowest known input takes 0.14 s.
 */
const INDICATORS_MAX = 1500;
const TEXT_MAX_LENGTH = 64 * 1024;
/** Maximum depth. The library recurses several times for each level, and V8 may abort when the stack overflows. */
const DEPTH_MAX = 100;
/** Maximum number of aliases. Each alias can multiply the size of the result. */
const ALIASES_MAX = 10;
/** Maximum length of printed YAML. Longer or deeper objects are returned as JSON, which is valid YAML in flow style. */
const PRINTED_MAX_LENGTH = 64 * 1024;

/** Matches indicator characters, tabs and line breaks. Source: YAML 1.2.2, 5.3 Indicator Characters. */
const INDICATOR = /[\n\r\t,[\]{}&*!|>'"%@`\\?#:-]/g;

export function isTooLong(text: string): boolean {
  if (text.length > TEXT_MAX_LENGTH) {
    return true;
  }
  let indicators = 0;
  INDICATOR.lastIndex = 0;
  while (INDICATOR.test(text)) {
    indicators += 1;
    if (indicators > INDICATORS_MAX) {
      INDICATOR.lastIndex = 0;
      return true;
    }
  }
  return false;
}

function childTokens(token: Yaml.CST.Token): Yaml.CST.Token[] {
  if (token.type === "document") {
    return token.value === undefined ? [] : [token.value];
  }
  return "items" in token
    ? token.items.flatMap(({ key, value }) => [key, value].filter((child) => isToken(child)))
    : [];
}

function isToken(token: Yaml.CST.Token | null | undefined): token is Yaml.CST.Token {
  return token !== null && token !== undefined;
}

/** Checks the depth iteratively, because a recursive check could overflow the stack. */
function checkDepth(tokens: readonly Yaml.CST.Token[]): void {
  let level = tokens;
  for (let depth = 0; level.length > 0; depth += 1) {
    if (depth > DEPTH_MAX) {
      throw new Error("yaml: exceeded max depth");
    }
    level = level.flatMap(childTokens);
  }
}

/** Rejects duplicate keys. The library's own check compares all pairs of keys. */
function checkUniqueKeys(document: Yaml.Document.Parsed): void {
  const { isScalar, visit } = loadLibrary();
  visit(document, {
    Map: (_key, { items }) => {
      const keys = items.map(({ key }) => (isScalar(key) ? key.value : key));
      if (new Set(keys).size < keys.length) throw new Error("Map keys must be unique");
    },
  });
}

/** Parses one document. Throws an Error for invalid YAML, several documents, duplicate keys, and keys that are not strings. */
export function parseYaml(text: string): unknown {
  const { Composer, Parser } = loadLibrary();
  const tokens = [...new Parser().parse(text)];
  checkDepth(tokens);
  const composer = new Composer({ prettyErrors: false, stringKeys: true, uniqueKeys: false });
  const [document, ...otherDocuments] = composer.compose(tokens, true, text.length);
  const [error] = document?.errors ?? [];
  if (error !== undefined) {
    throw error;
  }
  if (otherDocuments.length > 0) {
    throw new Error("yaml: more than one document");
  }
  if (document !== undefined) checkUniqueKeys(document);
  return document?.toJS({ maxAliasCount: ALIASES_MAX });
}

export function printYaml(json: string): string {
  const isLong = json.length > PRINTED_MAX_LENGTH;
  return isLong || extentFault(json, DEPTH_MAX) !== undefined
    ? json
    : loadLibrary().stringify(parseJson(json));
}
