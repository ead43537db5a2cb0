// SPDX-License-Identifier: Apache-2.0
// Parser of the command line. Every command loads this module, so it must not import large modules except commander.
import { Command as ParsedCommand, Option } from "commander";
import {
  OUTPUT_FORMATS,
  type Command,
  type Context,
  type FlagSpec,
  type GlobalOptions,
} from "./command.ts";
import { COMMAND_LINE, COMMANDS } from "./commands/table.ts";
import { DEFAULT_DATA_DIR } from "./config.ts";
import {
  joinFlagValues,
  parseAmount,
  parseCount,
  parseDuration,
  parseGroup,
  parsePort,
} from "./flag-values.ts";

/** Part of the context that does not depend on the arguments. */
export type ProcessContext = Omit<Context, "global" | "commandLine">;

const PARSERS = {
  duration: parseDuration,
  port: parsePort,
  count: parseCount,
  group: parseGroup,
  quantity: parseAmount,
} as const;

function parserOf({ kind }: FlagSpec): (text: string) => unknown {
  return kind === undefined ? (text) => text : PARSERS[kind];
}

function toOption(flag: FlagSpec): Option {
  const option = new Option(flag.flags, flag.description);
  if (flag.required === true) option.makeOptionMandatory();
  if (flag.choices !== undefined) option.choices(flag.choices);
  option.conflicts([...(flag.conflicts ?? [])]);
  const parse = parserOf(flag);
  if (flag.isRepeatable === true) {
    return option.argParser((text, known: readonly unknown[] | undefined) => [
      ...(known ?? []),
      parse(text),
    ]);
  }
  if (flag.kind !== undefined) option.argParser(parse);
  if (flag.fallback !== undefined) option.default(parse(flag.fallback), flag.fallback);
  return option;
}

function outputOption(): Option {
  return new Option("-o, --output <format>", "output format")
    .choices(OUTPUT_FORMATS)
    .default("table");
}

function addGlobalFlags(command: ParsedCommand): void {
  for (const flag of COMMAND_LINE.flags) {
    const option = toOption(flag);
    if (flag.flags.startsWith("--data-dir")) option.default(DEFAULT_DATA_DIR);
    command.addOption(option);
  }
  command.addOption(outputOption());
}

function toGlobal(options: Readonly<Record<string, unknown>>): GlobalOptions {
  return options as unknown as GlobalOptions; // The cast is safe, because commander returns the options that addGlobalFlags declares.
}

function addCommand(parent: ParsedCommand, added: Command, processContext: ProcessContext): void {
  const word = added.name.split(" ").at(-1) ?? added.name;
  const hidden = added.isHidden === true;
  const command = parent.command(word, { hidden }).description(added.summary);
  for (const alias of added.aliases ?? []) command.alias(alias);
  for (const arg of added.args) command.argument(arg);
  for (const flag of added.flags) command.addOption(toOption(flag));
  command.action(async () => {
    const options = command.optsWithGlobals();
    const context = { ...processContext, global: toGlobal(options), commandLine: COMMAND_LINE };
    await added.run(context, { args: command.args, options });
  });
}

class Program extends ParsedCommand {
  override parseOptions(args: string[]): ReturnType<ParsedCommand["parseOptions"]> {
    return super.parseOptions([...joinFlagValues(args, COMMANDS)]);
  }
}

/** Creates a parser that throws commander's errors instead of exiting. */
export function createProgram(processContext: ProcessContext): ParsedCommand {
  const program = new Program("patchbay")
    .description("Plugs network interfaces into running virtual machines")
    .version(`patchbay ${processContext.version}`, "--version", "print the version")
    .exitOverride()
    .configureOutput({
      writeOut: (text) => {
        processContext.out.write(text);
      },
      writeErr: (text) => {
        processContext.err.write(text);
      },
    })
    .configureHelp({ showGlobalOptions: true });
  addGlobalFlags(program);
  const groups = new Map<string, ParsedCommand>();
  for (const command of COMMANDS) {
    const [group = ""] = command.name.split(" ");
    const summary = COMMAND_LINE.groups[group];
    if (summary === undefined) {
      addCommand(program, command, processContext);
      continue;
    }
    const parent = groups.get(group) ?? program.command(group).description(summary);
    groups.set(group, parent);
    addCommand(parent, command, processContext);
  }
  return program;
}
