// SPDX-License-Identifier: Apache-2.0
// Files about the pod itself. Pure.
import type { DownwardFile, Pod } from "@patchbay/api";
import type { NodeFacts } from "../../translate/node-facts.ts";
import { fieldOf, resourceFieldOf } from "../../translate/fields.ts";
import { volumeFailed, type FileSet } from "./file-set.ts";

/** Control characters for which Go has a letter and JSON has none. */
const GO_LETTERS: Readonly<Record<string, string>> = { "07": "\\a", "0b": "\\v" };

/** As Go's `%q` quotes: like JSON but for control characters. */
function quoted(text: string): string {
  return JSON.stringify(text).replace(
    /\\u00([01][0-9a-f])/g,
    (_, code: string) => GO_LETTERS[code] ?? `\\x${code}`,
  );
}

/** One line for each, by name: `name="value"`. Source: Kubernetes fieldpath.FormatMap. */
function printMap(values: Readonly<Record<string, string>> = {}): string {
  return Object.keys(values)
    .sort()
    .map((name) => `${name}=${quoted(values[name] ?? "")}`)
    .join("\n");
}

function textOf(pod: Pod, file: DownwardFile, node: NodeFacts): string | undefined {
  if (file.resourceFieldRef !== undefined) return resourceFieldOf(pod, file.resourceFieldRef);
  const path = file.fieldRef?.fieldPath ?? "";
  if (path === "metadata.labels") return printMap(pod.metadata.labels);
  if (path === "metadata.annotations") return printMap(pod.metadata.annotations);
  // Fields of status and spec are for environments alone: they would have to be kept current here.
  return path.startsWith("metadata.") ? fieldOf(pod, path, { node, podIps: [] }) : undefined;
}

/** Whose pod, where, and what files have that name no mode of their own. */
export interface DownwardSource {
  readonly volume: string;
  readonly pod: Pod;
  readonly node: NodeFacts;
  readonly mode: number;
}

/**
 * Adds the files.
 * @throws AppError with RUNTIME_VOLUME_FAILED for a field that volumes do not have
 */
export function addDownwardFiles(
  files: FileSet,
  items: readonly DownwardFile[],
  { volume, pod, node, mode }: DownwardSource,
): void {
  for (const item of items) {
    const text = textOf(pod, item, node);
    if (text === undefined) {
      throw volumeFailed(
        volume,
        `fieldPath ${item.fieldRef?.fieldPath ?? ""} is not supported in volumes`,
      );
    }
    files.add(item.path, Buffer.from(text), { mode: item.mode ?? mode });
  }
}
