// SPDX-License-Identifier: Apache-2.0
// Checks a definition: its configuration, the policy, and the plugins, links and addresses on the node.
import { isAppError, type AppError } from "@patchbay/base";
import {
  collectNeeds,
  findDefinitionProblems,
  type DefinitionFacts,
  type DefinitionNeeds,
} from "@patchbay/core/nics";
import type { NetworkConfigList } from "@patchbay/core/interfaces";
import { BY_NETWORK } from "../../wake.ts";
import {
  isUnusableDefinition,
  readWrittenDefinition,
  withoutForgedInput,
} from "../pod/attachment/definition.ts";
import { findForbidden, findIgnoredMembers, isRejection } from "../pod/attachment/policy.ts";
import { findVmiOf } from "../pod/observe.ts";
import type { CheckDeps } from "./deps.ts";

export interface Finding {
  readonly problems: readonly AppError[];
  readonly facts?: DefinitionFacts;
  readonly fullLeaseDirectories: readonly string[];
}

async function isRequestedForGuests(network: string, deps: CheckDeps): Promise<boolean> {
  for (const pod of deps.pods.listBy(BY_NETWORK, network)) {
    if ((await findVmiOf(pod, deps)) !== undefined) return true;
  }
  return false;
}

async function findPlugins(
  { plugins }: DefinitionNeeds,
  { node }: CheckDeps,
): Promise<ReadonlySet<string>> {
  const available = new Set<string>();
  for (const plugin of plugins) if (await node.hasPlugin(plugin)) available.add(plugin);
  return available;
}

function listLeaseDirectories(
  { pools }: DefinitionNeeds,
  config: NetworkConfigList,
  { node }: CheckDeps,
): readonly string[] {
  return pools.map(({ directory }) => node.buildLeaseDirectory(directory, config.name));
}

async function collectFacts(
  network: string,
  config: NetworkConfigList,
  deps: CheckDeps,
): Promise<DefinitionFacts> {
  const needs = collectNeeds(config);
  const { node, files } = deps;
  const refersToLinks = needs.links.length + needs.bridges.length > 0;
  return {
    network,
    needs,
    plugins: await findPlugins(needs, deps),
    pluginPath: node.pluginPath,
    links: refersToLinks ? await node.listLinkKinds() : undefined,
    canFilterVlans: needs.vlan === undefined ? undefined : await node.supportsVlanFiltering(),
    leases: await Promise.all(
      listLeaseDirectories(needs, config, deps).map((directory) => files.list(directory)),
    ),
    isRequestedByLauncher:
      needs.unfitPlugin !== undefined && (await isRequestedForGuests(network, deps)),
  };
}

async function readConfigOrProblem(
  network: string,
  deps: CheckDeps,
): Promise<NetworkConfigList | AppError> {
  try {
    return await readWrittenDefinition(network, deps);
  } catch (error) {
    if (isAppError(error) && isUnusableDefinition(error)) return error;
    throw error;
  }
}

/** Finds the network's problems on this node, including a tolerated policy violation. `network` has the form NAMESPACE/NAME. */
export async function checkDefinition(network: string, deps: CheckDeps): Promise<Finding> {
  const written = await readConfigOrProblem(network, deps);
  if (isAppError(written)) return { problems: [written], fullLeaseDirectories: [] };
  const config = withoutForgedInput(network, written, deps);
  const forbidden = await findForbidden({ network, config }, deps);
  if (forbidden !== undefined && isRejection(forbidden)) {
    return { problems: [forbidden], fullLeaseDirectories: [] };
  }
  const facts = await collectFacts(network, config, deps);
  const problems = findDefinitionProblems(facts);
  const isExhausted = problems.some(({ code }) => code === "CNI_ADDRESSES_EXHAUSTED");
  const fullLeaseDirectories = isExhausted ? listLeaseDirectories(facts.needs, config, deps) : [];
  const ignored = findIgnoredMembers(network, written, deps);
  const warnings = [forbidden, ignored].filter((warning) => warning !== undefined);
  return { problems: [...problems, ...warnings], facts, fullLeaseDirectories };
}
