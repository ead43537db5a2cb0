// SPDX-License-Identifier: Apache-2.0
// Writes objects as YAML with actions of Helm's template language in place of some values.
import type { KubeObject } from "@patchbay/api/kubernetes";
import { isEqual } from "@patchbay/base";
import { stringify } from "yaml";

/**
 * Actions by the placeholders that represent them in objects. The templates use only actions of Go's text/template and
 * `toJson`, because JSON is YAML: lists and maps need no indentation.
 */
export class Placeholders {
  readonly #inline = new Map<string, string>();
  readonly #lines = new Map<string, string>();

  /** Placeholder for a part of a text, or for a value. */
  inline(action: string): string {
    const name = `INLINE-${String(this.#inline.size)}-END`;
    this.#inline.set(name, action);
    return name;
  }

  /** Placeholder for an entry of a list, or with any value for a field: lines that are indented like it. */
  lines(text: string): string {
    const name = `LINES-${String(this.#lines.size)}-END`;
    this.#lines.set(name, text);
    return name;
  }

  /** Replaces the placeholders in YAML. Braces of other languages, such as Grafana's, become text. */
  fill(yaml: string): string {
    return yaml
      .replaceAll("{{", '{{ "{{" }}')
      .replaceAll(/^( *)(?:- )?(LINES-\d+-END)(?:: null)?$/gm, (_, indent: string, name: string) =>
        (this.#lines.get(name) ?? "").replaceAll(/^/gm, indent),
      )
      .replaceAll(/INLINE-\d+-END/g, (name) => this.#inline.get(name) ?? "");
  }
}

/** Prints YAML that Helm's parser of YAML 1.1 reads as the same values. */
export function toYaml(value: unknown): string {
  return stringify(value, { lineWidth: 0, aliasDuplicateObjects: false, version: "1.1" });
}

/** A form of objects that applies under a condition of the template language. */
export interface Variant {
  readonly condition: string;
  readonly change: (object: KubeObject) => KubeObject;
}

/** Prints an object in all its variants, as `if` and `else`. Ignores variants that do not change it. */
export function printVariants(
  object: KubeObject,
  variants: readonly Variant[],
  print: (object: KubeObject) => string,
): string {
  const [variant, ...rest] = variants;
  if (variant === undefined) return print(object);
  const changed = variant.change(object);
  const otherwise = printVariants(object, rest, print);
  if (isEqual(changed, object)) return otherwise;
  return [
    `{{- if ${variant.condition} }}\n`,
    printVariants(changed, rest, print),
    "{{- else }}\n",
    otherwise,
    "{{- end }}\n",
  ].join("");
}

/** Wraps a template in a condition. */
export function onlyIf(condition: string | undefined, template: string): string {
  return condition === undefined ? template : `{{- if ${condition} }}\n${template}{{- end }}\n`;
}
