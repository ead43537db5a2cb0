// SPDX-License-Identifier: Apache-2.0
import type { NetworkAttachmentDefinition } from "@patchbay/api";
import type { Keyed } from "./objects.ts";
import { toLongText, toShortText } from "./shown.ts";
import type { Unit } from "./unit.ts";

export interface Jack {
  /** `namespace/name` of the network; `pod` for the pod network. */
  readonly key: string;
  readonly name: string;
  readonly namespace?: string;
  readonly type: string;
  readonly plugs: number;
  readonly problems: readonly string[];
  /** Index of the color of the network's cables, from 0. */
  readonly color: number;
}

/** Number of colors, which are distinct in both themes and for color-blind people. */
export const COLORS = 8;
const POD_KEY = "pod";

function fieldOf(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null && Object.hasOwn(value, name)
    ? (value as Readonly<Record<string, unknown>>)[name]
    : undefined;
}

/** Returns the type of a definition's first plugin; empty if the definition is missing or invalid. */
function readPluginType(definition: NetworkAttachmentDefinition | undefined): string {
  try {
    const config: unknown = JSON.parse(definition?.spec?.config ?? "{}");
    const plugins = fieldOf(config, "plugins");
    const first: unknown = Array.isArray(plugins) ? plugins[0] : undefined;
    const type = fieldOf(config, "type") ?? fieldOf(first, "type");
    return typeof type === "string" ? toShortText(type) : "";
  } catch {
    return "";
  }
}

function listProblems(definition: NetworkAttachmentDefinition): readonly string[] {
  return (definition.status?.problems ?? []).map(({ node, message }) =>
    toLongText(`${node}: ${message}`),
  );
}

/** Returns a color index derived from the key; 0 for the pod network. Several networks may have the same color. */
function chooseColor(key: string): number {
  if (key === POD_KEY) return 0;
  let hash = 0;
  for (const letter of key) hash = (hash * 31 + (letter.codePointAt(0) ?? 0)) % 65_521;
  return 1 + (hash % (COLORS - 1));
}

function countPlugs(units: readonly Unit[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const { plugs } of units) {
    for (const { network } of plugs) counts.set(network, (counts.get(network) ?? 0) + 1);
  }
  return counts;
}

function toJack(
  key: string,
  {
    definition,
    plugs,
  }: { definition: NetworkAttachmentDefinition | undefined } & Pick<Jack, "plugs">,
): Jack {
  const color = chooseColor(key);
  if (key === POD_KEY) {
    return { key, name: "pod network", type: "", plugs, problems: [], color };
  }
  const [namespace = "", name = ""] = key.split("/");
  const problems =
    definition === undefined ? ["no network of this name is defined"] : listProblems(definition);
  return { key, name, namespace, type: readPluginType(definition), plugs, problems, color };
}

/** Lists the pod network, and all networks that are defined or referenced. */
export function listJacks(
  networks: Keyed<NetworkAttachmentDefinition>,
  units: readonly Unit[],
): readonly Jack[] {
  const counts = countPlugs(units);
  const networkKeys = new Set([...networks.keys(), ...counts.keys()]);
  networkKeys.delete(POD_KEY);
  const keys = [POD_KEY, ...[...networkKeys].sort()];
  return keys.map((key) =>
    toJack(key, { definition: networks.get(key), plugs: counts.get(key) ?? 0 }),
  );
}

/** Returns the name by which a VM in `namespace` references the network. */
export function toRelativeNetwork(network: string, namespace: string): string {
  return network.startsWith(`${namespace}/`) ? network.slice(namespace.length + 1) : network;
}
