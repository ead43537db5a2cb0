// SPDX-License-Identifier: Apache-2.0
// The flags that say what definitions of tenants may name: one for each list of the table.
import {
  POLICY_FIELD_NAMES,
  POLICY_FIELDS,
  policyCauses,
  type ClusterTenantPolicy,
  type PolicyFieldName,
} from "@patchbay/api";
import { InvalidArgumentError, Option, type Command } from "commander";

/** A list as a flag has it, its entries separated by commas; `name`: of which list. */
function parseListOf(name: PolicyFieldName): (text: string) => readonly string[] {
  return (text) => {
    const entries = text
      .split(",")
      .map((part) => part.trim())
      .filter((part) => part !== "");
    const [cause] = policyCauses(name, entries, POLICY_FIELDS[name].flag);
    if (cause === undefined) return entries;
    throw new InvalidArgumentError(`${cause.message}.`);
  };
}

function optionOf(name: PolicyFieldName): Option {
  const { flag, entries, about, fallback } = POLICY_FIELDS[name];
  return new Option(`${flag} <${entries}>`, about)
    .argParser(parseListOf(name))
    .default(undefined, `the KubeVirt object's, else ${fallback.join(",")}`);
}

/** Adds a flag for each list. */
export function addPolicyFlags(command: Command): Command {
  for (const name of POLICY_FIELD_NAMES) command.addOption(optionOf(name));
  return command;
}

/** The lists that flags name, of what was parsed. */
export function namedLists(command: Command): ClusterTenantPolicy {
  const entries = POLICY_FIELD_NAMES.flatMap((name) => {
    // What `parseListOf` made.
    const list = command.getOptionValue(optionOf(name).attributeName()) as
      | readonly string[]
      | undefined;
    return list === undefined ? [] : [[name, list] as const];
  });
  return Object.fromEntries(entries);
}
