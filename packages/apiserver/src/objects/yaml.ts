// SPDX-License-Identifier: Apache-2.0
// YAML text to values and back. Few requests bring YAML: the library is loaded with the first.
import { createRequire } from "node:module";
import type * as Yaml from "yaml";

const require = createRequire(import.meta.url);
let loaded: typeof Yaml | undefined;

function library(): typeof Yaml {
  // What the package exports is what its types say.
  loaded ??= require("yaml") as typeof Yaml;
  return loaded;
}

/** Throws an Error where the text is no YAML, or names a key twice. */
export function parseYaml(text: string): unknown {
  return library().parse(text);
}

/** A value as YAML. */
export function printYaml(value: unknown): string {
  return library().stringify(value);
}
