// SPDX-License-Identifier: Apache-2.0
// YAML text to values and back. Few requests bring YAML: the library is loaded with the first.
import { createRequire } from "node:module";
import type * as Yaml from "yaml";
import { parseJson } from "./json.ts";

const require = createRequire(import.meta.url);
let loaded: typeof Yaml | undefined;

function library(): typeof Yaml {
  // What the package exports is what its types say.
  loaded ??= require("yaml") as typeof Yaml;
  return loaded;
}

/** The library takes a hundred times as long as for JSON, and looks for keys that are there twice by comparing each with each. */
const LINES_MAX = 2000;
/** Whoever wants more than that as YAML gets it in YAML's flow style, which is JSON. */
const PRINTED_MAX_LENGTH = 64 * 1024;

const PART = /[\n,[{]/g;

/** Whether reading the text would keep others waiting. No tool sends long YAML: kubectl makes JSON of it. */
export function isTooLong(text: string): boolean {
  let parts = 0;
  PART.lastIndex = 0;
  while (PART.test(text)) {
    parts += 1;
    if (parts > LINES_MAX) {
      PART.lastIndex = 0;
      return true;
    }
  }
  return false;
}

/** Throws an Error where the text is no YAML, or names a key twice. */
export function parseYaml(text: string): unknown {
  return library().parse(text);
}

/** JSON text as YAML. */
export function printYaml(json: string): string {
  return json.length > PRINTED_MAX_LENGTH ? json : library().stringify(parseJson(json));
}
