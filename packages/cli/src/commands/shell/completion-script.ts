// SPDX-License-Identifier: Apache-2.0
// Generates completion scripts for shells from the table of commands.
import type { CommandLine, CommandSpec, FlagSpec, ValueSource } from "../../command.ts";

const EVERY_COMMAND_FLAGS = ["--output", "--help"];

type Specs = readonly CommandSpec[];

function listFlagNames({ flags }: FlagSpec): readonly string[] {
  return flags.match(/(?<=^|\s)--?[a-z-]+/g) ?? [];
}

function longFlag(flag: FlagSpec): string {
  return listFlagNames(flag).at(-1) ?? "";
}

function takesValue({ flags }: FlagSpec): boolean {
  return flags.includes("<");
}

const SOURCES: Readonly<Record<ValueSource, string>> = {
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

function printBranch(patterns: readonly string[], action: string): string {
  return `    ${patterns.map((pattern) => `"${pattern}"`).join("|")}) ${action} ;;`;
}

function commandNames({ name, aliases = [] }: CommandSpec): readonly string[] {
  const group = name.split(" ").slice(0, -1);
  return [name, ...aliases.map((alias) => [...group, alias].join(" "))];
}

/** Returns shell code that assigns the possible values of a flag to `values`. Without known values, the code ends the completion. */
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
      return printBranch(patterns, printValues(flag));
    }),
  );
}

function globalBranches(flags: readonly FlagSpec[]): readonly string[] {
  return flags
    .filter(takesValue)
    .map((flag) => printBranch(listFlagNames(flag), printValues(flag)));
}

/** Returns `case` branches for the arguments of commands. Each pattern is a command's name and the index of an argument. */
function argumentBranches(commands: Specs): readonly string[] {
  return commands.flatMap((spec) =>
    (spec.values ?? []).map((values, index) =>
      printBranch(
        commandNames(spec).map((words) => `${words} ${String(index)}`),
        `values="$(${SOURCES[values]})"`,
      ),
    ),
  );
}

function wordBranches({ commands, groups }: CommandLine): readonly string[] {
  const firstWords = [...new Set(commands.map(({ name }) => name.split(" ")[0] ?? name))];
  const groupBranches = Object.keys(groups).map((group) => {
    const groupCommands = commands.filter(({ name }) => name.startsWith(`${group} `));
    return printBranch(
      [group],
      `values="${groupCommands.map(({ name }) => name.split(" ")[1]).join(" ")}"`,
    );
  });
  return [printBranch([""], `values="${firstWords.join(" ")}"`), ...groupBranches];
}

function flagListBranches(commands: Specs): readonly string[] {
  return commands.map((spec) =>
    printBranch(commandNames(spec), `flags="${spec.flags.map(longFlag).join(" ")}"`),
  );
}

/** Returns a `case` pattern for all flags with a value. The script skips the value, which is not a word of the command. */
function valueFlags({ flags: globalFlags, commands }: CommandLine): string {
  const valueTakingFlags = [...globalFlags, ...commands.flatMap(({ flags }) => flags)].filter(
    takesValue,
  );
  return [...new Set([...valueTakingFlags.flatMap(listFlagNames), "-o", "--output"])]
    .sort()
    .join("|");
}

export function printBashCompletion(commandLine: CommandLine): string {
  const commands = commandLine.commands.filter(({ isHidden }) => isHidden !== true);
  const visible = { ...commandLine, commands };
  const globals = visible.flags.flatMap(listFlagNames);
  const commonFlags = [...visible.flags.map(longFlag), ...EVERY_COMMAND_FLAGS].join(" ");
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
      ${valueFlags(visible)}) i=$((i + 1)) ;;
      -*) ;;
      *)
        case "$words" in
          "") words="$word" ;;
          ${Object.keys(visible.groups).join("|")}) words="$words $word" ;;
          *) [ -n "$vm" ] || vm="$word"; place=$((place + 1)) ;;
        esac ;;
    esac
  done
  case "$words $previous" in
${flagBranches(commands).join("\n")}
  esac
  case "$previous" in
    -o|--output) values="$(${SOURCES.formats})" ;;
${globalBranches(visible.flags).join("\n")}
  esac
  if [ -n "$values" ]; then COMPREPLY=($(compgen -W "$values" -- "$current")); return; fi
  case "$words" in
${wordBranches(visible).join("\n")}
${flagListBranches(commands).join("\n")}
  esac
  if [[ "$current" != -* ]]; then
    case "$words $place" in
${argumentBranches(commands).join("\n")}
    esac
  fi
  if [ -z "$values" ]; then values="$flags ${commonFlags}"; fi
  COMPREPLY=($(compgen -W "$values" -- "$current"))
}
complete -F _patchbay patchbay kubectl-patchbay
`;
}

/** Returns a script in which zsh runs the functions for bash. Source: zsh manual, "Completion System", bashcompinit. */
export function printZshCompletion(all: CommandLine): string {
  return `#compdef patchbay
# Completion of patchbay for zsh. Use: source <(patchbay completion zsh)
autoload -U +X compinit && compinit
autoload -U +X bashcompinit && bashcompinit
${printBashCompletion(all)}`;
}
