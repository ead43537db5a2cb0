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

/** A named set. The name must depend on the fixed elements, because `nft -t` lists no elements and thus cannot show that they changed. */
export interface NamedSet {
  readonly name: string;
  /** Type, size, flags and timeout, as nft prints them. */
  readonly properties: readonly string[];
  /** Initial elements. Packets may add elements to a dynamic set. */
  readonly elements: readonly string[];
}

export interface TableName {
  readonly family: "bridge" | "inet" | "netdev";
  readonly name: string;
}

export interface Table extends TableName {
  readonly sets?: readonly NamedSet[];
  readonly chains: readonly Chain[];
}

function printHook({ type, point, policy }: Hook): readonly string[] {
  return [`type ${type} hook ${point}; policy ${policy};`];
}

function printChain({ name, hook, rules }: Chain): readonly string[] {
  const hookLines = hook === undefined ? [] : printHook(hook);
  return [`\tchain ${name} {`, ...[...hookLines, ...rules].map((line) => `\t\t${line}`), "\t}"];
}

function printSet({ name, properties, elements }: NamedSet, withElements: boolean): string[] {
  const elementLines =
    withElements && elements.length > 0 ? [`elements = { ${elements.join(", ")} }`] : [];
  const lines = [...properties, ...elementLines].map((line) => `\t\t${line}`);
  return [`\tset ${name} {`, ...lines, "\t}"];
}

function printTableHead({ family, name }: TableName): string {
  return `table ${family} ${name} {`;
}

function printParts({ sets = [], ...table }: Table, withElements: boolean): string {
  return [
    printTableHead(table),
    ...sets.flatMap((set) => printSet(set, withElements)),
    ...table.chains.flatMap(printChain),
    "}",
  ].join("\n");
}

/** Prints the table like `nft -s -t -p list`, but without empty lines. */
export function printTable(table: Table): string {
  return printParts(table, false);
}

/** Returns commands for `nft -f` that delete a table. The table need not exist. */
export function printTableRemoval({ family, name }: TableName): string {
  const tableName = `table ${family} ${name}`;
  return `${tableName}\ndelete ${tableName}\n`;
}

/** Returns commands for `nft -f` that replace a table atomically. */
export function printTableReplacement(table: Table): string {
  return `${printTableRemoval(table)}${printParts(table, true)}\n`;
}

/**
 * Returns commands for `nft -f` that change a table atomically. Dynamic sets retain the elements that packets added. All
 * other sets are created again, because nft lists sets in the order of their creation.
 */
export function printTableUpdate(present: RulesetTables, table: Table): string {
  const tableName = `${table.family} ${table.name}`;
  const text = present.get(tableKey(table)) ?? "";
  const hookLines = table.chains.flatMap(({ hook }) => (hook === undefined ? [] : printHook(hook)));
  // The kernel removes a chain's hook when the device is deleted. Only a new table restores the hook.
  if (!hookLines.every((line) => text.includes(`\t\t${line}\n`)))
    return printTableReplacement(table);
  const setNames = [...text.matchAll(/^\tset (\S+) \{$/gm)].map(([, name]) => name ?? "");
  const dynamicSets = (table.sets ?? []).filter(({ elements }) => elements.length === 0);
  const retained = new Set(dynamicSets.map(({ name }) => name));
  return [
    `flush table ${tableName}`,
    ...setNames
      .filter((name) => !retained.has(name))
      .map((name) => `delete set ${tableName} ${name}`),
    printParts(table, true),
    "",
  ].join("\n");
}

export type RulesetTables = ReadonlyMap<string, string>;

function tableKey({ family, name }: TableName): string {
  return `${family} ${name}`;
}

/** Texts that nft 1.1 and later print differently, and the texts of nft 1.0, which {@link printTable} uses. */
const TEXTS_OF_NFT_1_1: readonly (readonly [RegExp, string])[] = [
  [/^(\t\ttype nat hook output priority )dstnat;/, "$1-100;"],
  [/^(\t\tip frag-off & )0x1fff != 0x0 /, "$18191 != 0 "],
];

function toTextOfNft10(line: string): string {
  return TEXTS_OF_NFT_1_1.reduce((text, [pattern, replacement]) => {
    return text.replace(pattern, replacement);
  }, line);
}

/** Parses the output of `nft -s -t -p list ruleset`. Tables begin and end at the start of a line. */
export function parseRuleset(text: string): RulesetTables {
  const tables = new Map<string, string>();
  let currentTable: { readonly key: string; readonly lines: string[] } | undefined;
  for (const line of text.split("\n")) {
    const [, family = "", name = ""] = /^table (\w+) (\S+) \{$/.exec(line) ?? [];
    if (name !== "") currentTable = { key: `${family} ${name}`, lines: [] };
    if (line.trim() !== "") {
      currentTable?.lines.push(toTextOfNft10(line));
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

export function printRawNumber(digits: string): string {
  return `0x${BigInt(`0x${digits}`).toString(16)}`;
}
