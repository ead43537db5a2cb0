// SPDX-License-Identifier: Apache-2.0
// Where a file of the node is: its directory and its name.

/** An absolute path of a file, taken apart. */
export interface HostPath {
  /** Absolute, without a slash at its end; the root is a slash. */
  readonly directory: string;
  readonly file: string;
}

/** Taken apart; undefined for a path that is not absolute, names no file, or goes up or in circles by `.` and `..`. */
export function findHostPath(path: string): HostPath | undefined {
  const [root, ...parts] = path.split("/");
  const isPlain = parts.every((part) => part !== "" && part !== "." && part !== "..");
  const file = parts.at(-1);
  if (root !== "" || file === undefined || !isPlain) return undefined;
  return { directory: `/${parts.slice(0, -1).join("/")}`, file };
}
