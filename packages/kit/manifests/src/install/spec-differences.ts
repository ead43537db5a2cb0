// SPDX-License-Identifier: Apache-2.0
// Lines that show how a workload's specification changed. Pure.
import { isJsonObject, type JsonObject } from "@patchbay/api";

/** Members that name an entry of a list, in order of preference. */
const ENTRY_KEYS = ["mountPath", "name"];

function keyOf(entry: unknown): string | undefined {
  if (!isJsonObject(entry)) return undefined;
  const key = ENTRY_KEYS.find((name) => typeof entry[name] === "string");
  return key === undefined ? undefined : String(entry[key]);
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** `template.spec.containers[virt-api].` is on almost every line, so the container's name stands for it. */
function shorten(path: string): string {
  return path
    .replace(/^template\.spec\.containers\[([^\]]+)\]\.?/, "$1: ")
    .replace(/^template\.spec\./, "");
}

/** Every value of a specification, one a line, such as `virt-api: resources.limits.memory: 1Gi`. */
function linesOf(value: unknown, path: string): readonly string[] {
  if (isJsonObject(value)) {
    return Object.entries(value).flatMap(([name, one]) =>
      linesOf(one, path === "" ? name : `${path}.${name}`),
    );
  }
  if (!Array.isArray(value)) return [`${shorten(path)}: ${textOf(value)}`];
  const isArguments = path.endsWith("].args");
  return value.flatMap((entry: unknown) => {
    const key = keyOf(entry);
    if (isArguments) return [`${shorten(path.replace(/args$/, ""))}${textOf(entry)}`];
    return key !== undefined && path.endsWith("ontainers")
      ? linesOf(entry, `${path}[${key}]`)
      : [`${shorten(key === undefined ? path : `${path}[${key}]`)}: ${textOf(entry)}`];
  });
}

/** Values that only one of the specifications has, such as `- net-agent: --mode=alone`. */
export function specDifferences(before: JsonObject, after: JsonObject): readonly string[] {
  const [old, current] = [linesOf(before, ""), linesOf(after, "")];
  return [
    ...old.filter((line) => !current.includes(line)).map((line) => `- ${line}`),
    ...current.filter((line) => !old.includes(line)).map((line) => `+ ${line}`),
  ];
}
