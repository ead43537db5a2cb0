// SPDX-License-Identifier: Apache-2.0
// Parses values of flags.
import type { CommandSpec, FlagSpec } from "./command.ts";
import { InvalidArgumentError } from "commander";

/** Returns a flag's names, the long name last, for example `-t` and `--local-ssh-opts`. Returns none for a flag without a value. */
function listFlagNames({ flags }: FlagSpec): readonly string[] {
  return flags.includes("<") ? flags.split(/[ ,]+/).filter((word) => word.startsWith("-")) : [];
}

function longNames({ flags }: CommandSpec): ReadonlyMap<string, string> {
  return new Map(
    flags.flatMap((flag) => {
      const flagNames = listFlagNames(flag);
      return flagNames.map((name) => [name, flagNames.at(-1) ?? name] as const);
    }),
  );
}

function isCommand({ name, aliases = [] }: CommandSpec, words: readonly string[]): boolean {
  const [group, word] = name.split(" ");
  const first = words.indexOf(group ?? "");
  if (first === -1) return false;
  return word === undefined || [word, ...aliases].includes(words[first + 1] ?? "");
}

/** Replaces `--flag -value` by `--flag=-value` in the arguments before `--`, because commander would parse `-value` as a flag. */
export function joinFlagValues(
  args: readonly string[],
  commands: readonly CommandSpec[],
): readonly string[] {
  const command = commands.find((each) => isCommand(each, args));
  if (command === undefined) return args;
  const longNamesByFlag = longNames(command);
  const joined: string[] = [];
  for (let index = 0; index < args.length; index += 1) {
    const [arg = "", next = ""] = args.slice(index, index + 2);
    if (arg === "--") return [...joined, ...args.slice(index)];
    const longName = longNamesByFlag.get(arg);
    const isJoined = longName !== undefined && /^-./.test(next);
    joined.push(isJoined ? `${longName}=${next}` : arg);
    if (isJoined) index += 1;
  }
  return joined;
}

const UNIT_MS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 };
const PORT_MAX = 65_535;

/** Parses text such as `90s`, `2m` or `1m30s`. Returns milliseconds. */
export function parseDuration(text: string): number {
  const parts = [...text.matchAll(/(?<!\d)(\d+)(ms|s|m|h)/g)];
  const length = parts.reduce((sum, [part]) => sum + part.length, 0);
  if (parts.length === 0 || length !== text.length) {
    throw new InvalidArgumentError("It must be a duration such as 90s or 2m.");
  }
  return parts.reduce(
    (sum, [, count, unit]) => sum + Number(count) * (UNIT_MS[unit ?? ""] ?? 0),
    0,
  );
}

export function parsePort(text: string): number {
  const port = Number(text);
  if (!/^\d+$/.test(text) || port > PORT_MAX) {
    throw new InvalidArgumentError(`It must be a number from 0 to ${String(PORT_MAX)}.`);
  }
  return port;
}

export function parseCount(text: string): number {
  if (!/^[1-9]\d{0,3}$/.test(text))
    throw new InvalidArgumentError("It must be a number of at least 1.");
  return Number(text);
}

/** Group ID of the launchers, copied from LAUNCHER_UID of the package api, because an import would slow the start of the command. */
const LAUNCHERS_GROUP = 107;
/** Maximum group ID. The next number is reserved as invalid. Source: linux/uidgid.h */
const GID_MAX = 2 ** 32 - 2;

/** Parses a dataplane's group ID. Rejects the launchers' group, whose members could create sockets for other VMs. */
export function parseGroup(text: string): number {
  const gid = Number(text);
  if (/^\d+$/.test(text) && gid <= GID_MAX && gid !== LAUNCHERS_GROUP) return gid;
  throw new InvalidArgumentError(
    `It must be the number of a group, and not ${String(LAUNCHERS_GROUP)}, the launchers' own.`,
  );
}

/** Validates an amount of bytes as a Kubernetes quantity. Source: Kubernetes resource.Quantity. */
export function parseAmount(text: string): string {
  if (!/^[1-9]\d*(\.\d+)?([KMGT]i|[kMGT])?$/.test(text)) {
    throw new InvalidArgumentError("It must be an amount such as 512Mi or 10Gi.");
  }
  return text;
}
