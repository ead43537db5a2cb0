// SPDX-License-Identifier: Apache-2.0
// Can NICs be made of a network's definition on this node? What is found is told before anybody asks for one.
import { AppError } from "../errors/app-error.ts";
import type { Named, AddressPool, DefinitionNeeds } from "./needs.ts";
import { rangeUseOf } from "./host-local.ts";

/** What the node says of the needs of one definition. */
export interface DefinitionFacts {
  /** NAMESPACE/NAME. */
  readonly network: string;
  readonly needs: DefinitionNeeds;
  /** Of the programs that are needed, those that are there. */
  readonly plugins: ReadonlySet<string>;
  /** Where they are looked for, for people. */
  readonly pluginPath: string;
  /** Kinds of the node's links by name; undefined: they were not looked at, since none is needed. */
  readonly links: ReadonlyMap<string, string> | undefined;
  /** Whether bridges can filter VLANs; undefined: nobody knows. */
  readonly filtersVlans: boolean | undefined;
  /** Names of files in the directory of each pool, in the order of the pools. */
  readonly leases: readonly (readonly string[])[];
  /** A launcher of a VM on this node asks for the network. */
  readonly isAskedForGuests: boolean;
}

function invalid(network: string, field: string, what: string): AppError {
  const reason = `spec.config.${field}: ${what}`;
  return new AppError("CNI_CONFIG_INVALID", { network, reason });
}

function programProblem(
  plugin: string,
  { plugins, pluginPath: path }: DefinitionFacts,
): readonly AppError[] {
  return plugins.has(plugin) ? [] : [new AppError("CNI_PLUGIN_MISSING", { plugin, path })];
}

function linkProblem({ field, name: link }: Named, facts: DefinitionFacts): readonly AppError[] {
  const { network, links } = facts;
  if (links === undefined || links.has(link)) return [];
  return [new AppError("CNI_LINK_MISSING", { network, field, link })];
}

function bridgeProblem({ field, name: link }: Named, facts: DefinitionFacts): readonly AppError[] {
  const { network, links } = facts;
  const kind = links?.get(link);
  if (kind === undefined || kind === "bridge") return [];
  return [new AppError("CNI_LINK_UNFIT", { network, field, link })];
}

function poolProblem(
  { prefix, ipam }: AddressPool,
  leases: readonly string[],
  { network }: DefinitionFacts,
): readonly AppError[] {
  return rangeUseOf(ipam, leases).flatMap(({ field: name, size, used }) => {
    const field = `${prefix}${name}`;
    if (size === 0n) return [invalid(network, field, "holds no address that a pod could get")];
    const details = { network, field, size: String(size) };
    return BigInt(used) < size ? [] : [new AppError("CNI_ADDRESSES_EXHAUSTED", details)];
  });
}

/** All that keeps NICs from being made, as the errors with which an attachment would fail; the gravest first. */
export function problemsOf(facts: DefinitionFacts): readonly AppError[] {
  const { network, needs, filtersVlans, leases, isAskedForGuests } = facts;
  const { vlan: field, unfitForGuests: plugin } = needs;
  return [
    ...needs.plugins.flatMap((named) => programProblem(named, facts)),
    ...needs.links.flatMap((named) => linkProblem(named, facts)),
    ...needs.bridges.flatMap((named) => bridgeProblem(named, facts)),
    ...(field !== undefined && filtersVlans === false
      ? [new AppError("CNI_VLAN_UNSUPPORTED", { network, field })]
      : []),
    ...needs.pools.flatMap((pool, at) => poolProblem(pool, leases[at] ?? [], facts)),
    ...(plugin !== undefined && isAskedForGuests
      ? [new AppError("CNI_CANNOT_CARRY_VM", { network, plugin })]
      : []),
  ];
}
