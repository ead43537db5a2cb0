// SPDX-License-Identifier: Apache-2.0
// Which paths name a file and nothing around it. Source: KubeVirt ValidatePath.

function hasOnlyPlainParts(path: string): boolean {
  const parts = path.split("/");
  const last = parts.at(-1) === "" ? parts.slice(0, -1) : parts;
  return last.every((part, index) =>
    index === 0 ? part === "" : part !== "" && part !== "." && part !== "..",
  );
}

/** What is wrong with the path of a file at `field`; undefined: nothing, or there is no path. */
export function pathFault(path: string, field: string): string | undefined {
  if (path === "") return undefined;
  if (path === "/") return `${field} must not point to root`;
  if (hasOnlyPlainParts(path)) return undefined;
  return `${field} must be an absolute path to a file without relative components`;
}
