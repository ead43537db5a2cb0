// SPDX-License-Identifier: Apache-2.0
// Tables of nftables as data, and as the text that nft reads and prints: one spelling for both, so that what is there can
// be compared with what is wanted.

/** Where a chain hooks in; the words are nft's own. */
export interface Hook {
  readonly type: "filter" | "nat";
  /** For example `prerouting priority dstnat`. */
  readonly at: string;
  readonly policy: "accept" | "drop";
}

/** A chain; without a hook others jump to it. */
export interface Chain {
  readonly name: string;
  readonly hook?: Hook;
  /** Each as nft prints it. */
  readonly rules: readonly string[];
}

/** Where a table is. */
export interface TableName {
  readonly family: "bridge" | "inet" | "netdev";
  readonly name: string;
}

/** A table with all that is in it. */
export interface Table extends TableName {
  readonly chains: readonly Chain[];
}

function chainText({ name, hook, rules }: Chain): readonly string[] {
  const { type, at, policy } = hook ?? {};
  const head =
    hook === undefined ? [] : [`type ${type ?? ""} hook ${at ?? ""}; policy ${policy ?? ""};`];
  return [`\tchain ${name} {`, ...[...head, ...rules].map((line) => `\t\t${line}`), "\t}"];
}

function headOf({ family, name }: TableName): string {
  return `table ${family} ${name} {`;
}

/** The table as `nft -s -p list` prints it, without empty lines. */
export function tableText(table: Table): string {
  return [headOf(table), ...table.chains.flatMap(chainText), "}"].join("\n");
}

/** Commands for `nft -f` that take a table away; that it is not there is no failure. */
export function removalText({ family, name }: TableName): string {
  const words = `table ${family} ${name}`;
  return `${words}\ndelete ${words}\n`;
}

/** Commands for `nft -f` that put a table in the place of the one of its name, in one step for the kernel. */
export function replacementText(table: Table): string {
  return `${removalText(table)}${tableText(table)}\n`;
}

/** Every table that was seen, by {@link keyOf}, as {@link tableText} spells it. */
export type SeenTables = ReadonlyMap<string, string>;

function keyOf({ family, name }: TableName): string {
  return `${family} ${name}`;
}

/** Reads what `nft -s -p list ruleset` prints: every table begins and ends at the start of a line. */
export function parseRuleset(text: string): SeenTables {
  const tables = new Map<string, string>();
  let open: { readonly key: string; readonly lines: string[] } | undefined;
  for (const line of text.split("\n")) {
    const [, family = "", name = ""] = /^table (\w+) (\S+) \{$/.exec(line) ?? [];
    if (name !== "") open = { key: `${family} ${name}`, lines: [] };
    if (line.trim() !== "") open?.lines.push(line);
    if (line !== "}" || open === undefined) continue;
    tables.set(open.key, open.lines.join("\n"));
    open = undefined;
  }
  return tables;
}

/** Whether the table is there as it is wanted, and nothing else is in it. */
export function hasTable(seen: SeenTables, wanted: Table): boolean {
  return seen.get(keyOf(wanted)) === tableText(wanted);
}

/** Whether there is a table of that name. */
export function hasTableNamed(seen: SeenTables, name: TableName): boolean {
  return seen.has(keyOf(name));
}
