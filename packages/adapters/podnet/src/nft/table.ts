// SPDX-License-Identifier: Apache-2.0
// nftables tables as data, and as text in nft's format. Callers compare the text of actual and wanted tables.

export interface Hook {
  readonly type: "filter" | "nat";
  /** Name and priority of the hook, for example `prerouting priority dstnat`. */
  readonly point: string;
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

function printChain({ name, hook, rules }: Chain): readonly string[] {
  const { type, point: at, policy } = hook ?? {};
  const hookLines =
    hook === undefined ? [] : [`type ${type ?? ""} hook ${at ?? ""}; policy ${policy ?? ""};`];
  return [`\tchain ${name} {`, ...[...hookLines, ...rules].map((line) => `\t\t${line}`), "\t}"];
}

function printTableHead({ family, name }: TableName): string {
  return `table ${family} ${name} {`;
}

/** Prints the table like `nft -s -p list`, but without empty lines. */
export function printTable(table: Table): string {
  return [printTableHead(table), ...table.chains.flatMap(printChain), "}"].join("\n");
}

/** Returns commands for `nft -f` that delete a table. The table need not exist. */
export function printTableRemoval({ family, name }: TableName): string {
  const tableName = `table ${family} ${name}`;
  return `${tableName}\ndelete ${tableName}\n`;
}

/** Returns commands for `nft -f` that replace a table atomically. */
export function printTableReplacement(table: Table): string {
  return `${printTableRemoval(table)}${printTable(table)}\n`;
}

export type RulesetTables = ReadonlyMap<string, string>;

function tableKey({ family, name }: TableName): string {
  return `${family} ${name}`;
}

/** Matches the priority of output NAT chains as nft 1.1 and later print it. The parser replaces it by -100, which nft 1.0 prints. */
const NAMED_OUTPUT_PRIORITY = /^(\t\ttype nat hook output priority )dstnat;/;

/** Parses the output of `nft -s -p list ruleset`. Tables begin and end at the start of a line. */
export function parseRuleset(text: string): RulesetTables {
  const tables = new Map<string, string>();
  let currentTable: { readonly key: string; readonly lines: string[] } | undefined;
  for (const line of text.split("\n")) {
    const [, family = "", name = ""] = /^table (\w+) (\S+) \{$/.exec(line) ?? [];
    if (name !== "") currentTable = { key: `${family} ${name}`, lines: [] };
    if (line.trim() !== "") {
      currentTable?.lines.push(line.replace(NAMED_OUTPUT_PRIORITY, "$1-100;"));
    }
    if (line !== "}" || currentTable === undefined) continue;
    tables.set(currentTable.key, currentTable.lines.join("\n"));
    currentTable = undefined;
  }
  return tables;
}

export function hasTable(present: RulesetTables, wanted: Table): boolean {
  return present.get(tableKey(wanted)) === printTable(wanted);
}

export function hasTableNamed(present: RulesetTables, name: TableName): boolean {
  return present.has(tableKey(name));
}

export function toMacDigits(mac: string): string {
  return mac.replaceAll(":", "");
}

/** Prints a hexadecimal number without leading zeros, as nft does for raw fields. */
export function printRawNumber(digits: string): string {
  return `0x${BigInt(`0x${digits}`).toString(16)}`;
}
