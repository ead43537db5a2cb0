// SPDX-License-Identifier: Apache-2.0
// Generates completion scripts for shells from the table of commands.
import type { CommandLine, CommandSpec, FlagSpec, Values } from "../../command.ts";

const LOCAL_FLAGS = ["--output", "--help"];

type Specs = readonly CommandSpec[];

/** Returns the names of a flag, for example `-n` and `--namespace`. */
function listFlagNames({ flags }: FlagSpec): readonly string[] {
  return flags.match(/(?<=^|\s)--?[a-z-]+/g) ?? [];
}

function longFlag(flag: FlagSpec): string {
  return listFlagNames(flag).at(-1) ?? "";
}

function takesValue({ flags }: FlagSpec): boolean {
  return flags.includes("<");
}

/** Shell commands that print the possible values for the word in `$current`. */
const SOURCES: Readonly<Record<Values, string>> = {
  vms: "_patchbay_ask vms",
  networks: "_patchbay_ask networks",
  interfaces: '_patchbay_ask interfaces "$vm"',
  namespaces: "_patchbay_ask namespaces",
  images: "_patchbay_ask images",
  shells: "echo bash zsh",
  formats: "echo table json yaml name",
  files: 'compgen -f -- "$current"',
  directories: 'compgen -d -- "$current"',
};

function branch(patterns: readonly string[], action: string): string {
  return `    ${patterns.map((pattern) => `"${pattern}"`).join("|")}) ${action} ;;`;
}

/** Returns the command's name, and its name with each alias as the last word. */
function commandNames({ name, aliases = [] }: CommandSpec): readonly string[] {
  const group = name.split(" ").slice(0, -1);
  return [name, ...aliases.map((alias) => [...group, alias].join(" "))];
}

/** Returns shell code that sets `values` for a flag; completion offers nothing for values that only the user knows. */
function printValues({ values, choices }: FlagSpec): string {
  if (choices !== undefined) return `values="${choices.join(" ")}"`;
  return values === undefined ? "return" : `values="$(${SOURCES[values]})"`;
}

function flagBranches(commands: Specs): readonly string[] {
  return commands.flatMap((spec) =>
    spec.flags.filter(takesValue).map((flag) => {
      const patterns = commandNames(spec).flatMap((words) =>
        listFlagNames(flag).map((name) => `${words} ${name}`),
      );
      return branch(patterns, printValues(flag));
    }),
  );
}

function globalBranches(flags: readonly FlagSpec[]): readonly string[] {
  return flags.filter(takesValue).map((flag) => branch(listFlagNames(flag), printValues(flag)));
}

/** Returns branches for the arguments of commands, with patterns of the form `WORDS INDEX`. */
function placeBranches(commands: Specs): readonly string[] {
  return commands.flatMap((spec) =>
    (spec.values ?? []).map((values, place) =>
      branch(
        commandNames(spec).map((words) => `${words} ${String(place)}`),
        `values="$(${SOURCES[values]})"`,
      ),
    ),
  );
}

function wordBranches({ commands, groups }: CommandLine): readonly string[] {
  const first = [...new Set(commands.map(({ name }) => name.split(" ")[0] ?? name))];
  const groupBranches = Object.keys(groups).map((group) => {
    const inner = commands.filter(({ name }) => name.startsWith(`${group} `));
    return branch([group], `values="${inner.map(({ name }) => name.split(" ")[1]).join(" ")}"`);
  });
  return [branch([""], `values="${first.join(" ")}"`), ...groupBranches];
}

function flagListBranches(commands: Specs): readonly string[] {
  return commands.map((spec) =>
    branch(commandNames(spec), `flags="${spec.flags.map(longFlag).join(" ")}"`),
  );
}

/** Returns a pattern that matches all flags with a value, so that the script skips the value. */
function valueFlags({ flags: globals, commands }: CommandLine): string {
  const all = [...globals, ...commands.flatMap(({ flags }) => flags)].filter(takesValue);
  return [...new Set([...all.flatMap(listFlagNames), "-o", "--output"])].sort().join("|");
}

/** Prints shell functions that find the position of the cursor. The program itself prints the names of objects. */
export function printBashCompletion(all: CommandLine): string {
  const commands = all.commands.filter(({ isHidden }) => isHidden !== true);
  const line = { ...all, commands };
  const globals = line.flags.flatMap(listFlagNames);
  const commonFlags = [...line.flags.map(longFlag), ...LOCAL_FLAGS].join(" ");
  return `# Completion of patchbay for bash. Use: source <(patchbay completion bash)
_patchbay_ask() {
  "\${COMP_WORDS[0]}" "\${globals[@]}" complete "$@" 2>/dev/null
}
_patchbay() {
  local current="\${COMP_WORDS[COMP_CWORD]}" previous="\${COMP_WORDS[COMP_CWORD-1]}"
  local words="" place=0 vm="" values="" flags="" word i
  local -a globals=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    word="\${COMP_WORDS[i]}"
    case "$word" in
      ${globals.join("|")}) ((i + 1 == COMP_CWORD)) || globals+=("$word" "\${COMP_WORDS[i+1]}"); i=$((i + 1)) ;;
      ${valueFlags(line)}) i=$((i + 1)) ;;
      -*) ;;
      *)
        case "$words" in
          "") words="$word" ;;
          ${Object.keys(line.groups).join("|")}) words="$words $word" ;;
          *) [ -n "$vm" ] || vm="$word"; place=$((place + 1)) ;;
        esac ;;
    esac
  done
  case "$words $previous" in
${flagBranches(commands).join("\n")}
  esac
  case "$previous" in
    -o|--output) values="$(${SOURCES.formats})" ;;
${globalBranches(line.flags).join("\n")}
  esac
  if [ -n "$values" ]; then COMPREPLY=($(compgen -W "$values" -- "$current")); return; fi
  case "$words" in
${wordBranches(line).join("\n")}
${flagListBranches(commands).join("\n")}
  esac
  if [[ "$current" != -* ]]; then
    case "$words $place" in
${placeBranches(commands).join("\n")}
    esac
  fi
  if [ -z "$values" ]; then values="$flags ${commonFlags}"; fi
  COMPREPLY=($(compgen -W "$values" -- "$current"))
}
complete -F _patchbay patchbay kubectl-patchbay
`;
}

/** Prints a script in which zsh runs the functions for bash. Source: zsh manual, "Completion System", bashcompinit. */
export function printZshCompletion(all: CommandLine): string {
  return `#compdef patchbay
# Completion of patchbay for zsh. Use: source <(patchbay completion zsh)
autoload -U +X compinit && compinit
autoload -U +X bashcompinit && bashcompinit
${printBashCompletion(all)}`;
}
