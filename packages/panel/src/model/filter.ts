// SPDX-License-Identifier: Apache-2.0
import type { Plug } from "./nic/plug.ts";
import type { Unit } from "./unit.ts";

/** Filter of units. An empty field matches all units. */
export interface Filter {
  readonly text: string;
  readonly namespace: string;
  readonly node: string;
  readonly network: string;
  /** Shows only units with a NIC that has this reason, or with a notice of this title. `any`: units with any problem. Empty: all units. */
  readonly reason: string;
}

export const NO_FILTER: Filter = { text: "", namespace: "", node: "", network: "", reason: "" };

function searchText(unit: Unit): string {
  const plugs = unit.plugs.flatMap(({ name, network, mac, addresses, state, guestName }) => [
    name,
    network,
    mac,
    state,
    guestName,
    ...addresses,
  ]);
  return [unit.key, unit.node, unit.state, unit.system, ...plugs].join(" ").toLowerCase();
}

function hasProblem({ tone }: Plug): boolean {
  return tone === "failing" || tone === "waiting";
}

function hasReason(unit: Unit, reason: string): boolean {
  if (reason === "any") return unit.notices.length > 0 || unit.plugs.some(hasProblem);
  return (
    unit.plugs.some((plug) => plug.reason === reason) ||
    unit.notices.some(({ title }) => title === reason)
  );
}

export function filterUnits(units: readonly Unit[], filter: Filter): readonly Unit[] {
  const words = filter.text.toLowerCase().split(/\s+/).filter(Boolean);
  return units.filter((unit) => {
    if (filter.namespace !== "" && unit.namespace !== filter.namespace) return false;
    if (filter.node !== "" && unit.node !== filter.node) return false;
    if (filter.network !== "" && !unit.plugs.some(({ network }) => network === filter.network)) {
      return false;
    }
    if (filter.reason !== "" && !hasReason(unit, filter.reason)) return false;
    if (words.length === 0) return true;
    const unitText = searchText(unit);
    return words.every((word) => unitText.includes(word));
  });
}

export interface Choices {
  readonly namespaces: readonly string[];
  readonly nodes: readonly string[];
  readonly reasons: readonly string[];
}

function listDistinct(values: readonly (string | undefined)[]): readonly string[] {
  return [...new Set(values.filter((value) => value !== undefined && value !== ""))]
    .filter((value) => value !== undefined)
    .sort();
}

export function listChoices(units: readonly Unit[]): Choices {
  return {
    namespaces: listDistinct(units.map(({ namespace }) => namespace)),
    nodes: listDistinct(units.map(({ node }) => node)),
    reasons: listDistinct([
      ...units.flatMap(({ plugs }) => plugs.map(({ reason }) => reason)),
      ...units.flatMap(({ notices }) => notices.map(({ title }) => title)),
    ]),
  };
}
