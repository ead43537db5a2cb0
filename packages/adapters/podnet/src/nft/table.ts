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

/** A change of one table. Several changes are applied in one transaction. */
export interface TableChange {
  readonly commands: string;
  readonly name: TableName;
  readonly result: Table | "removed" | "unknown";
}

/** Plans the removal of a table. The table need not exist. */
export function removeTable({ family, name }: TableName): TableChange {
  const tableName = `table ${family} ${name}`;
  const commands = `${tableName}\ndelete ${tableName}\n`;
  return { commands, name: { family, name }, result: "removed" };
}

/** Plans the replacement of a table. The table need not exist. */
export function replaceTable(table: Table): TableChange {
  const { commands, name } = removeTable(table);
  return { commands: `${commands}${printParts(table, true)}\n`, name, result: table };
}

/**
 * Plans the change of a table. Dynamic sets retain the elements that packets added. All other sets are created again,
 * because nft lists sets in the order of their creation.
 */
export function updateTable(present: RulesetTables, table: Table): TableChange {
  const { family, name } = table;
  const tableName = `${family} ${name}`;
  const text = present.get(tableKey(table)) ?? "";
  const hookLines = table.chains.flatMap(({ hook }) => (hook === undefined ? [] : printHook(hook)));
  // The kernel removes a chain's hook when the device is deleted. Only a new table restores the hook.
  if (!hookLines.every((line) => text.includes(`\t\t${line}\n`))) return replaceTable(table);
  const setNames = [...text.matchAll(/^\tset (\S+) \{$/gm)].map(([, set]) => set ?? "");
  const dynamicSets = (table.sets ?? []).filter(({ elements }) => elements.length === 0);
  const retained = new Set(dynamicSets.map((set) => set.name));
  const commands = [
    `flush table ${tableName}`,
    ...setNames.filter((set) => !retained.has(set)).map((set) => `delete set ${tableName} ${set}`),
    printParts(table, true),
    "",
  ].join("\n");
  return { commands, name: { family, name }, result: "unknown" };
}

export type RulesetTables = ReadonlyMap<string, string>;

/** Returns the tables after the changes, as nft would list them. Returns undefined if that is unknown. */
export function predictTables(
  present: RulesetTables,
  changes: readonly TableChange[],
): RulesetTables | undefined {
  const tables = new Map(present);
  for (const { name, result } of changes) {
    if (result === "unknown") return undefined;
    if (result === "removed") tables.delete(tableKey(name));
    else tables.set(tableKey(name), printTable(result));
  }
  return tables;
}

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
