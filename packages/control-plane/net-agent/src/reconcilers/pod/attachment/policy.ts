// SPDX-License-Identifier: Apache-2.0
// Checks NetworkAttachmentDefinitions against the tenant policy, because plugins run as root.
import { isAppError, AppError } from "@patchbay/base";
import { listLeaseDirectories, namesBridge, findPolicyProblems } from "@patchbay/core/nics";
import { keyOf, printKey, parseKey } from "@patchbay/kube";
import type { NetworkConfigList } from "@patchbay/core/interfaces";
import type { Deps } from "../../../deps.ts";
import { readDefinition } from "./definition.ts";
import { POLICY_FIELDS } from "@patchbay/api";
import { PROBLEMS_MAX } from "@patchbay/api/limits";

type PoolOwners = Pick<Deps, "policy" | "nads" | "definitionFiles" | "readDefaultNetwork">;

/** Returns undefined if the definition cannot be read, because a network without a valid definition assigns no addresses. */
async function readIfUsable<T>(read: () => Promise<T> | undefined): Promise<T | undefined> {
  try {
    return await read();
  } catch (error) {
    if (isAppError(error)) return undefined;
    throw error;
  }
}

/** Finds a trusted network that uses a lease directory of `config`. The default network is compared by name, as its IPAM may be unknown. */
async function findPoolOwner(
  config: NetworkConfigList,
  deps: PoolOwners,
): Promise<string | undefined> {
  const directories = new Set(listLeaseDirectories(config));
  if (directories.size === 0) return undefined;
  const defaultNetwork = await readIfUsable(() => deps.readDefaultNetwork?.());
  if (defaultNetwork?.name === config.name) return "the pods' default network";
  const { trustedNamespaces } = deps.policy.current();
  for (const nad of deps.nads.list()) {
    if (!trustedNamespaces.includes(nad.metadata.namespace ?? "")) continue;
    const network = printKey(keyOf(nad));
    const other = await readIfUsable(() => readDefinition(network, deps));
    const directoriesInUse = other === undefined ? [] : listLeaseDirectories(other);
    if (directoriesInUse.some((directory) => directories.has(directory)))
      return `network ${network}`;
  }
  return undefined;
}

/** Name of Patchbay's plugin for container runtimes, which calls net-agent. Source: packages/adapters/cni/native. */
export const OWN_PLUGIN = "patchbay-cni";

function findSelfCall(network: string, { plugins }: NetworkConfigList): AppError | undefined {
  if (!plugins.some(({ type }) => type === OWN_PLUGIN)) return undefined;
  return new AppError("CNI_PLUGIN_CALLS_ITSELF", { network, plugin: OWN_PLUGIN });
}

/** Rejects networks with patchbay-cni, whose nested ADD would wait for the running ADD. @throws AppError with CNI_PLUGIN_CALLS_ITSELF */
export function assertNotOwnPlugin(network: string, config: NetworkConfigList): void {
  const selfCall = findSelfCall(network, config);
  if (selfCall !== undefined) throw selfCall;
}

type PolicyDeps = PoolOwners & Pick<Deps, "listOwnBridges">;

async function findNameProblems(
  config: NetworkConfigList,
  deps: PolicyDeps,
): Promise<readonly string[]> {
  const owner = await findPoolOwner(config, deps);
  if (owner === undefined) return [];
  const { flag } = POLICY_FIELDS.trustedNamespaces;
  return [
    `name "${config.name}", which ${owner} uses for its address pool; choose another name (${flag})`,
  ];
}

function printProblems(problems: readonly string[]): string {
  const listed = problems.slice(0, PROBLEMS_MAX).join(", ");
  return problems.length < PROBLEMS_MAX ? listed : `${listed}, at which the check stopped`;
}

async function listProblems(
  { network, namespace }: { readonly network: string; readonly namespace: string },
  config: NetworkConfigList,
  deps: PolicyDeps,
): Promise<readonly string[] | AppError> {
  try {
    const ownBridges = namesBridge(config) ? await deps.listOwnBridges() : new Set<string>();
    const definition = { namespace, config };
    return [
      ...findPolicyProblems(definition, deps.policy.current(), ownBridges),
      ...(await findNameProblems(config, deps)),
    ];
  } catch (error) {
    if (!(error instanceof RangeError || error instanceof TypeError)) throw error;
    const reason = `its check failed: ${error.message}`;
    return new AppError("CNI_CONFIG_INVALID", { network, reason });
  }
}

/** Returns an error if the network calls Patchbay's plugin or violates the policy; CNI_DEFINITION_TOLERATED if the policy only warns. */
export async function findForbidden(
  network: string,
  config: NetworkConfigList,
  deps: PolicyDeps,
): Promise<AppError | undefined> {
  const selfCall = findSelfCall(network, config);
  const { namespace = "" } = parseKey(network);
  const policy = deps.policy.current();
  if (selfCall !== undefined || policy.trustedNamespaces.includes(namespace)) return selfCall;
  const problems = await listProblems({ network, namespace }, config, deps);
  if (isAppError(problems)) return problems;
  if (problems.length === 0) return undefined;
  const code = deps.policy.isEnforced ? "CNI_DEFINITION_FORBIDDEN" : "CNI_DEFINITION_TOLERATED";
  const setting = deps.policy.describeSetting();
  return new AppError(code, { network, namespace, named: printProblems(problems), setting });
}

export function isRejection({ code }: AppError): boolean {
  return code !== "CNI_DEFINITION_TOLERATED";
}

/** Logs a violation that the policy tolerates. @throws the error of {@link findForbidden} for other violations */
export async function assertAllowed(
  network: string,
  config: NetworkConfigList,
  deps: Deps,
): Promise<void> {
  const forbidden = await findForbidden(network, config, deps);
  if (forbidden === undefined) return;
  if (isRejection(forbidden)) throw forbidden;
  deps.log.warn("attaching a network that violates the tenant policy", {
    network,
    reason: forbidden.message,
  });
}
