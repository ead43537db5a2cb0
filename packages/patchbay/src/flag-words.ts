// SPDX-License-Identifier: Apache-2.0
// Joins a flag of a command with a value that begins with a dash. The program parses its own flags first, and would take such
// a value for one of them: `-o X` behind `--local-ssh-opts` for `--output`. Pure.
import type { CommandSpec, FlagSpec } from "./command.ts";

/** The names of a flag that takes a value, for example `-t` and `--local-ssh-opts`; the long one is the last. */
function namesOf({ flags }: FlagSpec): readonly string[] {
  return flags.includes("<") ? flags.split(/[ ,]+/).filter((word) => word.startsWith("-")) : [];
}

/** The long name of each flag, by all its names. */
function longNames({ flags }: CommandSpec): ReadonlyMap<string, string> {
  return new Map(
    flags.flatMap((flag) => {
      const known = namesOf(flag);
      return known.map((name) => [name, known.at(-1) ?? name] as const);
    }),
  );
}

function isCommand({ name, aliases = [] }: CommandSpec, words: readonly string[]): boolean {
  const [group, word] = name.split(" ");
  const first = words.indexOf(group ?? "");
  if (first === -1) return false;
  return word === undefined || [word, ...aliases].includes(words[first + 1] ?? "");
}

/** The arguments, with `--flag=-value` for `--flag -value`; what comes after `--` is left as it is. */
export function joinFlagValues(
  args: readonly string[],
  commands: readonly CommandSpec[],
): readonly string[] {
  const command = commands.find((each) => isCommand(each, args));
  if (command === undefined) return args;
  const known = longNames(command);
  const joined: string[] = [];
  for (let index = 0; index < args.length; index += 1) {
    const [arg = "", next = ""] = args.slice(index, index + 2);
    if (arg === "--") return [...joined, ...args.slice(index)];
    const long = known.get(arg);
    const isJoined = long !== undefined && /^-./.test(next);
    joined.push(isJoined ? `${long}=${next}` : arg);
    if (isJoined) index += 1;
  }
  return joined;
}
