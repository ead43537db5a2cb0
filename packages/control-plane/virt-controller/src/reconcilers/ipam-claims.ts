// SPDX-License-Identifier: Apache-2.0
// Observes and creates the IPAMClaims for a VMI's NICs, and deletes an IPAMClaim when the VM no longer has the NIC.
import {
  IPAM_CLAIMS,
  names,
  type IpamClaim,
  type NetworkAttachmentDefinition,
  type VirtualMachineInstance,
  type VmiSpec,
} from "@patchbay/api";
import { AppError, isAppError } from "@patchbay/base";
import {
  findIpamClaimOwner,
  findPodNetwork,
  findPrimaryNetwork,
  listIpamClaimNames,
  planIpamClaims,
  type IpamClaimAction,
  type IpamClaimNames,
  type VmiFacts,
} from "@patchbay/core/vm";
import { ownerPodName } from "@patchbay/core/migration";
import { networkNameOf, networksOf } from "@patchbay/core/nics";
import { versionTest } from "@patchbay/core/status";
import type { Definitions } from "@patchbay/core/node";
import { done, keyOf, parseKey, printKey, type Next } from "@patchbay/kube";
import type { Deps } from "../deps.ts";

/** Index of IPAMClaims by NAMESPACE/NAME of the VM or VMI that owns them. */
export const BY_OWNER = "owner";
/** Index of NetworkAttachmentDefinitions by the namespace whose primary network they are. */
export const BY_PRIMARY = "primary";

/** Returns the namespace's primary network by NAMESPACE/NAME. Empty if no specification has the pod network. */
export function listPrimaryDefinitions(
  specs: readonly VmiSpec[],
  namespace: string,
  { nads }: Deps,
): readonly (readonly [string, NetworkAttachmentDefinition])[] {
  if (specs.every((spec) => findPodNetwork(spec) === undefined)) return [];
  const nad = findPrimaryNetwork(nads.listBy(BY_PRIMARY, namespace), namespace);
  return nad === undefined ? [] : [[printKey(keyOf(nad)), nad]];
}

const NOT_SERVED = `the cluster does not serve ${IPAM_CLAIMS.resource}.${IPAM_CLAIMS.group}; install their CustomResourceDefinition`;
const FORBIDDEN = `virt-controller may not read ${IPAM_CLAIMS.resource}.${IPAM_CLAIMS.group}; apply the roles of this version of Patchbay`;

function explainUnavailable(error: unknown): string {
  if (isAppError(error, "KUBE_NOT_FOUND")) return NOT_SERVED;
  if (isAppError(error, "KUBE_FORBIDDEN")) return FORBIDDEN;
  throw error;
}

/**
 * Finds a NIC's claims. Reads a claim that the cache lacks from the API server, because it may be new. Reads a swap's claim from the API
 * server only if the usual claim is for another network: otherwise, no swap can have created a new claim.
 */
async function findNicClaims(
  { usual, swap, configName }: IpamClaimNames,
  namespace: string,
  { ipamClaims, store }: Deps,
): Promise<readonly IpamClaim[]> {
  const find = async (name: string): Promise<IpamClaim | undefined> =>
    ipamClaims.find({ namespace, name }) ?? (await store.find(IPAM_CLAIMS, { namespace, name }));
  const claim = await find(usual);
  const isOfOtherNetwork = claim !== undefined && claim.spec.network !== configName;
  const swapClaim = isOfOtherNetwork
    ? await find(swap)
    : ipamClaims.find({ namespace, name: swap });
  return [claim, swapClaim].flatMap((found) => found ?? []);
}

export async function observeIpamClaims(
  vmi: VirtualMachineInstance,
  definitions: Definitions,
  deps: Deps,
): Promise<Pick<VmiFacts, "ipamClaims">> {
  const { namespace = "" } = vmi.metadata;
  const nicNames = listIpamClaimNames(vmi, definitions);
  if (nicNames.length === 0) return {};
  const claims = new Map<string, IpamClaim>();
  const { ovnDefaultNetwork: defaultNetwork, nads } = deps;
  const hasDefault = nads.find(parseKey(defaultNetwork)) !== undefined;
  const facts = { claims, ...(hasDefault && { defaultNetwork }) };
  try {
    for (const each of nicNames) {
      for (const claim of await findNicClaims(each, namespace, deps))
        claims.set(claim.metadata.name, claim);
    }
    return { ipamClaims: facts };
  } catch (error) {
    return { ipamClaims: { ...facts, unavailable: explainUnavailable(error) } };
  }
}

/** Creates the claim. @throws AppError with CONTROLLER_IPAM_CLAIM_TAKEN if another owner has a claim with this name */
export async function createIpamClaim(claim: IpamClaim, { store, log }: Deps): Promise<void> {
  const object = printKey(keyOf(claim));
  try {
    await store.create(IPAM_CLAIMS, claim);
    log.info("created ipam claim", { claim: object });
  } catch (error) {
    if (!isAppError(error, "KUBE_ALREADY_EXISTS")) throw error;
    throw new AppError("CONTROLLER_IPAM_CLAIM_TAKEN", { object });
  }
}

async function performOne({ kind, claim }: IpamClaimAction, { store, log }: Deps): Promise<void> {
  const key = keyOf(claim);
  const { finalizers = [], uid = "" } = claim.metadata;
  if (kind === "deleteIpamClaim") {
    await store.delete(IPAM_CLAIMS, key, { uid });
    log.info("deleted ipam claim", { claim: printKey(key) });
    return;
  }
  const value = finalizers.filter((finalizer) => finalizer !== names.IPAM_CLAIM_FINALIZER);
  const operations = [
    versionTest(claim),
    { op: "add", path: "/metadata/finalizers", value },
  ] as const;
  await store.patch(IPAM_CLAIMS, key, { type: "json", operations });
  log.info("released ipam claim", { claim: printKey(key) });
}

/** Deletes claims that no NIC of the VM or VMI needs, and releases deleted claims that no NIC uses. */
export async function reconcileIpamClaims(key: string, deps: Deps): Promise<Next> {
  const claims = deps.ipamClaims
    .listBy(BY_OWNER, key)
    .filter((claim) => findIpamClaimOwner(claim) === key);
  if (claims.length === 0) return done();
  const object = parseKey(key);
  const { namespace = "" } = object;
  const vm = deps.vms.find(object);
  const vmi = deps.vmis.find(object);
  const pod = vmi && deps.pods.find({ namespace, name: ownerPodName(vmi) });
  const specs = [vm?.spec.template.spec, vmi?.spec].flatMap((spec) => spec ?? []);
  const networkNames = specs
    .flatMap(networksOf)
    .flatMap((network) => networkNameOf(network, namespace) ?? []);
  const definitions: Definitions = new Map([
    ...networkNames.flatMap((name) => {
      const nad = deps.nads.find(parseKey(name));
      return nad === undefined ? [] : [[name, nad] as const];
    }),
    ...listPrimaryDefinitions(specs, namespace, deps),
  ]);
  for (const action of planIpamClaims(claims, { vm, vmi, pod, definitions })) {
    await performOne(action, deps);
  }
  return done();
}
