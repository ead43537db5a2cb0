// SPDX-License-Identifier: Apache-2.0
import type { ProcessRunner } from "@patchbay/core/interfaces";

const TIMEOUT_MS = 10_000;
const REASON_MAX = 300;

/** Applies the script as one transaction, or only checks it. Returns the reason if nft refuses the script. */
export async function runNft(
  runner: ProcessRunner,
  stdin: string,
  mode: "apply" | "check" = "apply",
): Promise<string | undefined> {
  const options = mode === "check" ? ["-c"] : [];
  const argv = ["nft", ...options, "-f", "-"] as const;
  const { exitCode, stderr } = await runner.run({ argv, stdin, timeoutMs: TIMEOUT_MS });
  if (exitCode === 0) return undefined;
  // nft repeats the refused line, which may contain thousands of elements.
  const [reason = ""] = stderr.trim().slice(0, REASON_MAX).split("\n");
  return reason;
}

export interface Refused<T> {
  readonly item: T;
  readonly reason: string;
}

/** Processes the items together. If `process` returns a reason, halves them, and returns the single items that are refused. */
export async function halveOnRefusal<T>(
  items: readonly T[],
  process: (items: readonly T[]) => Promise<string | undefined>,
): Promise<readonly Refused<T>[]> {
  const [first] = items;
  if (first === undefined) return [];
  const reason = await process(items);
  if (reason === undefined) return [];
  if (items.length === 1) return [{ item: first, reason }];
  const middle = Math.ceil(items.length / 2);
  return [
    ...(await halveOnRefusal(items.slice(0, middle), process)),
    ...(await halveOnRefusal(items.slice(middle), process)),
  ];
}
