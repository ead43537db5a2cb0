// SPDX-License-Identifier: Apache-2.0
// What is each network, as a jack on the other side of the cables? Pure.
import type { NetworkAttachmentDefinition } from "@patchbay/api";
import type { Keyed } from "./objects.ts";
import { long, short } from "./shown.ts";
import type { Unit } from "./unit.ts";

/** A network. */
export interface Jack {
  /** `namespace/name`, or `pod`. */
  readonly key: string;
  readonly name: string;
  readonly namespace?: string;
  /** What makes it: the type of its CNI plugin. */
  readonly type: string;
  /** How many NICs are on it. */
  readonly plugs: number;
  /** What is wrong with it, in words. */
  readonly problems: readonly string[];
  /** Which colour its cables have, from 0. */
  readonly colour: number;
}

/** Colours that can be told from one another, in both themes and by people who see no red or green. */
export const COLOURS = 8;
const POD = "pod";

function fieldOf(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null && Object.hasOwn(value, name)
    ? (value as Readonly<Record<string, unknown>>)[name] // it has it
    : undefined;
}

/** The word of a definition's plugin; definitions are tenants' own text. */
function typeOf(definition: NetworkAttachmentDefinition | undefined): string {
  try {
    const config: unknown = JSON.parse(definition?.spec?.config ?? "{}");
    const plugins = fieldOf(config, "plugins");
    const first: unknown = Array.isArray(plugins) ? plugins[0] : undefined;
    const word = fieldOf(config, "type") ?? fieldOf(first, "type");
    return typeof word === "string" ? short(word) : "";
  } catch {
    return "";
  }
}

function problemsOf(definition: NetworkAttachmentDefinition): readonly string[] {
  return (definition.status?.problems ?? []).map(({ node, message }) =>
    long(`${node}: ${message}`),
  );
}

/** From a network's name: it stays when other networks come and go. Two names may have one; the pod network's is 0. */
function colourOf(key: string): number {
  if (key === POD) return 0;
  let hash = 0;
  for (const letter of key) hash = (hash * 31 + (letter.codePointAt(0) ?? 0)) % 65_521;
  return 1 + (hash % (COLOURS - 1));
}

function countPlugs(units: readonly Unit[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const { plugs } of units) {
    for (const { network } of plugs) counts.set(network, (counts.get(network) ?? 0) + 1);
  }
  return counts;
}

function jackOf(
  key: string,
  {
    definition,
    plugs,
  }: { definition: NetworkAttachmentDefinition | undefined } & Pick<Jack, "plugs">,
): Jack {
  const colour = colourOf(key);
  if (key === POD) {
    return { key, name: "pod network", type: "", plugs, problems: [], colour };
  }
  const [namespace = "", name = ""] = key.split("/");
  const problems =
    definition === undefined ? ["no such network is known here"] : problemsOf(definition);
  return { key, name, namespace, type: typeOf(definition), plugs, problems, colour };
}

/** All jacks: the pods' network, those that are defined, and those that are only named. */
export function jacksOf(
  networks: Keyed<NetworkAttachmentDefinition>,
  units: readonly Unit[],
): readonly Jack[] {
  const counts = countPlugs(units);
  const named = new Set([...networks.keys(), ...counts.keys()]);
  named.delete(POD);
  const keys = [POD, ...[...named].sort()];
  return keys.map((key) =>
    jackOf(key, { definition: networks.get(key), plugs: counts.get(key) ?? 0 }),
  );
}
