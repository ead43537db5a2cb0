// SPDX-License-Identifier: Apache-2.0
// Which files of a container's log are kept, and under which names? Pure.

/** How much of a container's log is kept. */
export interface LogBounds {
  /** A longer file is moved away, bytes. Source: Kubernetes kubelet, containerLogMaxSize. */
  readonly bytesMax: number;
  /** Files of one run, the one that is written included; at least 2. Source: kubelet, containerLogMaxFiles. */
  readonly filesMax: number;
}

/** Kubernetes' defaults: 50 MiB for each run of a container. */
export const LOG_BOUNDS: LogBounds = { bytesMax: 10 * 1024 * 1024, filesMax: 5 };

/** Names of old logs: in the order of their age, digits of a time behind the name of the log. */
function isRotated(name: string, base: string): boolean {
  return name.startsWith(`${base}.`) && /^\d+$/.test(name.slice(base.length + 1));
}

/** What is done with a log that is too long. */
export interface Rotation {
  /** New name of the file. */
  readonly to: string;
  /** Names of old files that go. */
  readonly remove: readonly string[];
}

/** The rotation of log `base` among the `names` of its directory; `time`: now, RFC 3339. */
export function planRotation(
  names: readonly string[],
  base: string,
  { time, filesMax }: { readonly time: string; readonly filesMax: number },
): Rotation {
  const old = names.filter((name) => isRotated(name, base)).sort();
  const newest = old.at(-1) ?? "";
  const wanted = `${base}.${time.replace(/\D/g, "")}`;
  // The clock may go back, or stand still: the newest must be the last one all the same.
  const to = wanted > newest ? wanted : `${newest}0`;
  const kept = Math.max(filesMax - 2, 0);
  return { to, remove: old.slice(0, Math.max(0, old.length - kept)) };
}

/** The files of runs that nobody knows any more; `bases` are the logs of those that are known. */
export function forgottenLogs(
  names: readonly string[],
  bases: readonly string[],
): readonly string[] {
  const isKnown = (name: string): boolean =>
    bases.some((base) => name === base || isRotated(name, base));
  return names.filter((name) => /^\d+\.log(\.\d+)?$/.test(name) && !isKnown(name));
}

/** A log that is written is looked at this often at least and at most, milliseconds. */
const LOOK_MS = { least: 20, most: 500 };

/** How a log grew between two looks. */
export interface Growth {
  /** What was added. */
  readonly bytes: number;
  readonly tookMs: number;
  /** What may still be added. */
  readonly leftBytes: number;
}

/** When the log is to be looked at next, milliseconds: at the latest when it reaches its bound, as fast as it grows now. */
export function nextLookMs({ bytes, tookMs, leftBytes }: Growth): number {
  if (bytes <= 0 || tookMs <= 0) return LOOK_MS.most;
  const untilFullMs = (leftBytes * tookMs) / bytes;
  return Math.min(Math.max(untilFullMs, LOOK_MS.least), LOOK_MS.most);
}
