// SPDX-License-Identifier: Apache-2.0
// Checks NetworkAttachmentDefinitions against the tenant policy, because plugins run as root.
import { isAppError, AppError } from "@patchbay/base";
import {
  type AddressContext,
  findAddressProblems,
  findAssignedProblems,
  findNodeAddressMember,
  findPolicyProblems,
  findPortProblems,
  findRequestedProblems,
  listLeaseDirectories,
  listNamedBridges,
  listRuntimeMembers,
  namesBridge,
} from "@patchbay/core/nics";
import { keyOf, printKey, parseKey } from "@patchbay/kube";
import type { CniResult, NetworkConfigList } from "@patchbay/core/interfaces";
import type { Deps } from "../../../deps.ts";
import { isTrusted, readDefinition } from "./definition.ts";
import { POLICY_FIELDS } from "@patchbay/api";
import { cutText, PROBLEMS_MAX } from "@patchbay/api/limits";
import { parsePreferredIps, type NetworkSelection } from "@patchbay/api/annotations";

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
  const others = await listTrustedNetworks(deps);
  const owner = others.find(({ config: other }) =>
    listLeaseDirectories(other).some((directory) => directories.has(directory)),
  );
  return owner && `network ${owner.network}`;
}

interface NamedNetwork {
  readonly network: string;
  readonly config: NetworkConfigList;
}

async function listTrustedNetworks(deps: PoolOwners): Promise<readonly NamedNetwork[]> {
  const networks: NamedNetwork[] = [];
  for (const nad of deps.nads.list()) {
    const network = printKey(keyOf(nad));
    if (!isTrusted(network, deps)) continue;
    const config = await readIfUsable(() => readDefinition(network, deps));
    if (config !== undefined) networks.push({ network, config });
  }
  return networks;
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

type PolicyDeps = PoolOwners & Pick<Deps, "listOwnBridges" | "listNodeSubnets">;

interface RequestingPod {
  readonly namespace: string;
  readonly selection: NetworkSelection;
  /** Whether the network replaces the pods' default network, and its addresses become the pod's own. */
  readonly isDefault?: true;
}

interface NetworkUse extends NamedNetwork {
  readonly pod?: RequestingPod;
}

const OWN_ADDRESS = "the pod's own address";

async function readAddressContext(deps: PolicyDeps): Promise<AddressContext> {
  const trusted = (await listTrustedNetworks(deps)).flatMap(({ config }) =>
    listNamedBridges(config),
  );
  return {
    policy: deps.policy.current(),
    subnets: await deps.listNodeSubnets(),
    foreignBridges: new Set([...(await deps.listOwnBridges()), ...trusted]),
  };
}

async function findDefinitionAddressProblems(
  { config, pod }: NetworkUse,
  deps: PolicyDeps,
): Promise<readonly string[]> {
  const purpose = findNodeAddressMember(config) ?? (pod?.isDefault && OWN_ADDRESS);
  if (purpose === undefined) return [];
  const requestedIps =
    pod === undefined ? [] : [...(pod.selection.ips ?? []), ...parsePreferredIps(pod.selection)];
  return findAddressProblems(purpose, { config, requestedIps }, await readAddressContext(deps));
}

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

/** A repeated check fails alike, so its defect refuses the network. Rethrows other errors. */
function toDefect(network: string, error: unknown): AppError {
  if (!(error instanceof RangeError || error instanceof TypeError)) throw error;
  const reason = `its check failed: ${cutText(error.message)}`;
  return new AppError("CNI_CONFIG_INVALID", { network, reason });
}

async function listProblems(
  use: NetworkUse,
  deps: PolicyDeps,
): Promise<readonly string[] | AppError> {
  const { network, config } = use;
  const { namespace = "" } = parseKey(network);
  try {
    const ownBridges = namesBridge(config) ? await deps.listOwnBridges() : new Set<string>();
    return [
      ...findPolicyProblems({ namespace, config }, deps.policy.current(), ownBridges),
      ...(await findDefinitionAddressProblems(use, deps)),
      ...(await findNameProblems(config, deps)),
    ];
  } catch (error) {
    return toDefect(network, error);
  }
}

/** Returns an error if the network calls Patchbay's plugin or violates the policy; CNI_DEFINITION_TOLERATED if the policy only warns. */
export async function findForbidden(
  use: NetworkUse,
  deps: PolicyDeps,
): Promise<AppError | undefined> {
  const { network, config } = use;
  const selfCall = findSelfCall(network, config);
  if (selfCall !== undefined || isTrusted(network, deps)) return selfCall;
  const { namespace = "" } = parseKey(network);
  const problems = await listProblems(use, deps);
  if (isAppError(problems)) return problems;
  if (problems.length === 0) return undefined;
  const code = deps.policy.isEnforced ? "CNI_DEFINITION_FORBIDDEN" : "CNI_DEFINITION_TOLERATED";
  const setting = deps.policy.describeSetting();
  return new AppError(code, { network, namespace, named: printProblems(problems), setting });
}

export function isRejection({ code }: AppError): boolean {
  return code !== "CNI_DEFINITION_TOLERATED";
}

export function findIgnoredMembers(
  network: string,
  written: NetworkConfigList,
  deps: Pick<Deps, "policy">,
): AppError | undefined {
  const members = isTrusted(network, deps) ? [] : listRuntimeMembers(written);
  if (members.length === 0) return undefined;
  return new AppError("CNI_DEFINITION_MEMBERS_IGNORED", {
    network,
    named: printProblems(members),
  });
}

type RequestDeps = PolicyDeps & Pick<Deps, "listListeningPorts" | "log">;

async function findRequestProblems(
  { network, config, pod }: NetworkUse,
  deps: RequestDeps,
): Promise<readonly string[]> {
  const policy = deps.policy.current();
  if (pod === undefined || policy.trustedNamespaces.includes(pod.namespace)) return [];
  const { portMappings, ips: requestedIps = [] } = pod.selection;
  const portProblems =
    portMappings === undefined
      ? []
      : findPortProblems(portMappings, policy, await deps.listListeningPorts());
  const requestedArgs = pod.selection["cni-args"];
  const purpose = pod.isDefault === true ? OWN_ADDRESS : findNodeAddressMember(config);
  const isRequest = requestedIps.length > 0 || requestedArgs != null;
  if (purpose === undefined || !isRequest || !isTrusted(network, deps)) return portProblems;
  const context = await readAddressContext(deps);
  const request = { config, requestedIps, requestedArgs };
  return [...portProblems, ...findRequestedProblems(purpose, request, context)];
}

function rejectRequest(
  { network, pod }: NetworkUse,
  problems: readonly string[],
  { policy, log }: Pick<Deps, "policy" | "log">,
): void {
  if (problems.length === 0) return;
  const error = new AppError("CNI_REQUEST_FORBIDDEN", {
    network,
    namespace: pod?.namespace ?? "",
    named: printProblems(problems),
    setting: policy.describeSetting(),
  });
  if (policy.isEnforced) throw error;
  log.warn("attaching a network although the pod's request violates the tenant policy", {
    network,
    reason: error.message,
  });
}

/** Logs a violation that the policy tolerates. @throws AppError of {@link findForbidden}, or with CNI_REQUEST_FORBIDDEN */
export async function assertAllowed(use: NetworkUse, deps: RequestDeps): Promise<void> {
  const { network } = use;
  const forbidden = await findForbidden(use, deps);
  if (forbidden !== undefined) {
    if (isRejection(forbidden)) throw forbidden;
    deps.log.warn("attaching a network that violates the tenant policy", {
      network,
      reason: forbidden.message,
    });
  }
  const problems = await findRequestProblems(use, deps).catch((error: unknown) => {
    throw toDefect(network, error);
  });
  rejectRequest(use, problems, deps);
}

export async function assertPodAddressesAllowed(
  use: NetworkUse,
  { ips = [] }: CniResult,
  deps: RequestDeps,
): Promise<void> {
  if (isTrusted(use.network, deps) || ips.length === 0) return;
  const assigned = { config: use.config, ips: ips.map(({ address }) => address) };
  const problems = findAssignedProblems(OWN_ADDRESS, assigned, await readAddressContext(deps));
  rejectRequest(use, problems, deps);
}
