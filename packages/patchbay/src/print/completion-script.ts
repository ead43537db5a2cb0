// SPDX-License-Identifier: Apache-2.0
// What do the shells have to know to complete our commands? Generated from the table of commands.
import { COMMANDS, GLOBAL_FLAGS, GROUPS } from "../command-table.ts";

function longFlag(flags: string): string {
  return /--[a-z-]+/.exec(flags)?.[0] ?? "";
}

const EVERYWHERE = [...GLOBAL_FLAGS.map(({ flags }) => longFlag(flags)), "--output", "--help"];

/** Words that may follow `patchbay`, a group, or a command. */
function wordsAfter(): readonly (readonly [string, readonly string[]])[] {
  const first = new Set(COMMANDS.map(({ name }) => name.split(" ")[0] ?? name));
  const groups = Object.keys(GROUPS).map((group): readonly [string, readonly string[]] => [
    group,
    COMMANDS.flatMap(({ name }) =>
      name.startsWith(`${group} `) ? [name.slice(group.length + 1)] : [],
    ),
  ]);
  const commands = COMMANDS.map(({ name, flags }): readonly [string, readonly string[]] => [
    name,
    [
      ...(name === "completion" ? ["bash", "zsh"] : []),
      ...flags.map((flag) => longFlag(flag.flags)),
      ...EVERYWHERE,
    ],
  ]);
  return [["", [...first, "--help"]], ...groups, ...commands];
}

/** One function; it looks the words before the cursor up. */
export function printBashCompletion(): string {
  const cases = wordsAfter().map(([words, next]) => `    "${words}") next="${next.join(" ")}" ;;`);
  const groups = Object.keys(GROUPS).join("|");
  return `# Completion of patchbay for bash. Use: source <(patchbay completion bash)
_patchbay() {
  local current="\${COMP_WORDS[COMP_CWORD]}" previous="\${COMP_WORDS[COMP_CWORD-1]}" words="" next=""
  case "$previous" in
    -o|--output) COMPREPLY=($(compgen -W "table json yaml name" -- "$current")); return ;;
    --kubeconfig) COMPREPLY=($(compgen -f -- "$current")); return ;;
    --data-dir) COMPREPLY=($(compgen -d -- "$current")); return ;;
  esac
  if [ "$COMP_CWORD" -gt 1 ]; then
    words="\${COMP_WORDS[1]}"
    case "$words" in
      ${groups}) if [ "$COMP_CWORD" -gt 2 ]; then words="$words \${COMP_WORDS[2]}"; fi ;;
    esac
  fi
  case "$words" in
${cases.join("\n")}
  esac
  COMPREPLY=($(compgen -W "$next" -- "$current"))
}
complete -F _patchbay patchbay kubectl-patchbay
`;
}

/** zsh understands bash's functions. Source: zsh manual, "Completion System", bashcompinit. */
export function printZshCompletion(): string {
  return `#compdef patchbay
# Completion of patchbay for zsh. Use: source <(patchbay completion zsh)
autoload -U +X compinit && compinit
autoload -U +X bashcompinit && bashcompinit
${printBashCompletion()}`;
}
