// SPDX-License-Identifier: Apache-2.0
// How do the arguments of the process become one command's input? Loads nothing but commander.
import { Command, Option } from "commander";
import { loadCommand } from "./commands/modules.ts";
import {
  COMMANDS,
  GLOBAL_FLAGS,
  GROUPS,
  type CommandSpec,
  type FlagSpec,
} from "./commands/table.ts";
import { DEFAULT_DATA_DIR } from "./config.ts";
import { OUTPUT_FORMATS, type Context, type GlobalOptions, type Input } from "./context.ts";
import { parseDuration, parsePort } from "./flag-values.ts";

/** What does not depend on the arguments. */
export type Surroundings = Omit<Context, "global">;

const PARSERS = { duration: parseDuration, port: parsePort } as const;

function toOption(flag: FlagSpec): Option {
  const option = new Option(flag.flags, flag.description);
  if (flag.required === true) option.makeOptionMandatory();
  const parser = flag.kind === undefined ? undefined : PARSERS[flag.kind];
  if (parser === undefined) return option;
  option.argParser(parser);
  if (flag.fallback !== undefined) option.default(parser(flag.fallback), flag.fallback);
  return option;
}

function outputOption(): Option {
  return new Option("-o, --output <format>", "output format")
    .choices(OUTPUT_FORMATS)
    .default("table");
}

function addGlobalFlags(command: Command): void {
  for (const flag of GLOBAL_FLAGS) {
    const option = toOption(flag);
    if (flag.flags.startsWith("--data-dir")) option.default(DEFAULT_DATA_DIR);
    command.addOption(option);
  }
  command.addOption(outputOption());
}

function toGlobal(options: Readonly<Record<string, unknown>>): GlobalOptions {
  return options as unknown as GlobalOptions; // commander has read them as addGlobalFlags says
}

function addCommand(parent: Command, spec: CommandSpec, surroundings: Surroundings): void {
  const word = spec.name.split(" ").at(-1) ?? spec.name;
  const hidden = spec.isHidden === true;
  const command = parent.command(word, { hidden }).description(spec.summary);
  for (const alias of spec.aliases ?? []) command.alias(alias);
  for (const arg of spec.args) command.argument(arg);
  for (const flag of spec.flags) command.addOption(toOption(flag));
  command.action(async () => {
    const options = command.optsWithGlobals();
    const input: Input = { args: command.args, options };
    const module = await loadCommand(spec.name);
    await module.run({ ...surroundings, global: toGlobal(options) }, input);
  });
}

/** The program; it throws commander's errors instead of ending the process. */
export function createProgram(surroundings: Surroundings): Command {
  const program = new Command("patchbay")
    .description("Plugs network interfaces into running virtual machines")
    .exitOverride()
    .configureOutput({
      writeOut: (text) => {
        surroundings.out.write(text);
      },
      writeErr: (text) => {
        surroundings.err.write(text);
      },
    })
    .configureHelp({ showGlobalOptions: true });
  addGlobalFlags(program);
  const groups = new Map<string, Command>();
  for (const spec of COMMANDS) {
    const [group = ""] = spec.name.split(" ");
    const summary = GROUPS[group];
    if (summary === undefined) {
      addCommand(program, spec, surroundings);
      continue;
    }
    const parent = groups.get(group) ?? program.command(group).description(summary);
    groups.set(group, parent);
    addCommand(parent, spec, surroundings);
  }
  return program;
}
