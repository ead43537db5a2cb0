// SPDX-License-Identifier: Apache-2.0
// nftables tables as data, and as the text that nft reads and prints, so that actual and wanted tables can be
// compared.

export interface Hook {
  readonly type: "filter" | "nat";
  /** Hook and priority, for example `prerouting priority dstnat`. */
  readonly at: string;
  readonly policy: "accept" | "drop";
}

export interface Chain {
  readonly name: string;
  readonly hook?: Hook;
  readonly rules: readonly string[];
}

export interface TableName {
  readonly family: "bridge" | "inet" | "netdev";
  readonly name: string;
}

export interface Table extends TableName {
  readonly chains: readonly Chain[];
}

function chainText({ name, hook, rules }: Chain): readonly string[] {
  const { type, at, policy } = hook ?? {};
  const head =
    hook === undefined ? [] : [`type ${type ?? ""} hook ${at ?? ""}; policy ${policy ?? ""};`];
  return [`\tchain ${name} {`, ...[...head, ...rules].map((line) => `\t\t${line}`), "\t}"];
}

function tableHead({ family, name }: TableName): string {
  return `table ${family} ${name} {`;
}

/** Prints the table as `nft -s -p list` does, without empty lines. */
export function tableText(table: Table): string {
  return [tableHead(table), ...table.chains.flatMap(chainText), "}"].join("\n");
}

/** Returns commands for `nft -f` that delete a table, whether or not it exists. */
export function removalText({ family, name }: TableName): string {
  const tableName = `table ${family} ${name}`;
  return `${tableName}\ndelete ${tableName}\n`;
}

/** Returns commands for `nft -f` that replace a table atomically. */
export function replacementText(table: Table): string {
  return `${removalText(table)}${tableText(table)}\n`;
}

export type RulesetTables = ReadonlyMap<string, string>;

function tableKey({ family, name }: TableName): string {
  return `${family} ${name}`;
}

/** Parses `nft -s -p list ruleset`, where each table begins and ends at the start of a line. */
export function parseRuleset(text: string): RulesetTables {
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

export function hasTable(present: RulesetTables, wanted: Table): boolean {
  return present.get(tableKey(wanted)) === tableText(wanted);
}

export function hasTableNamed(present: RulesetTables, name: TableName): boolean {
  return present.has(tableKey(name));
}

export function macDigits(mac: string): string {
  return mac.replaceAll(":", "");
}

/** Prints a hexadecimal number without leading zeros, as nft prints raw fields. */
export function rawNumber(digits: string): string {
  return `0x${BigInt(`0x${digits}`).toString(16)}`;
}
