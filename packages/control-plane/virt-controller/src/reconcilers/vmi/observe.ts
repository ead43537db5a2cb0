// SPDX-License-Identifier: Apache-2.0
// Reads the facts about a VMI.
import {
  type PersistentVolumeClaim,
  type VirtualMachineInstance,
  type Pod,
  isVmiFinal,
  names,
  networkConfigOf,
  readOvercommitConfig,
  PODS,
  readStorageConfig,
  logsSerialConsoles,
  usesEmulation,
  type NetworkConfig,
} from "@patchbay/api";
import {
  listClaimNames,
  type VmiFacts,
  listNetworkNames,
  hasMissingImage,
  planImageVolumeProbe,
} from "@patchbay/core/vm";
import {
  isNodeUnresponsive,
  findUnavailableNetworks,
  findNodeLoss,
  type Definitions,
  type UnavailableNetworks,
  type NodeLoss,
  offeredResources,
} from "@patchbay/core/node";
import { isLauncherOf, ownerPodName } from "@patchbay/core/migration";
import type { Cache, ObjectKey } from "@patchbay/core/interfaces";
import type { Deps } from "../../deps.ts";
import { parseKey } from "@patchbay/kube";

export function findClaims(
  vmi: VirtualMachineInstance,
  claims: Pick<Cache<PersistentVolumeClaim>, "find">,
): VmiFacts["storage"]["claims"] {
  const { namespace = "" } = vmi.metadata;
  const found = listClaimNames(vmi).flatMap((name) => {
    const claim = claims.find({ namespace, name });
    return claim === undefined ? [] : [[name, claim] as const];
  });
  return new Map(found);
}

/** Describes the loss of the pod's node if the node does not answer. */
export function findLoss(
  pod: Pod | undefined,
  { nodes }: Pick<Deps, "nodes">,
): NodeLoss | undefined {
  const name = pod?.spec.nodeName;
  return name === undefined ? undefined : findNodeLoss(nodes.find({ name }));
}

/** Networks for which the pod's node cannot create NICs, except those of bindings, which only the node reports. */
export function findAbsences(
  { vmi, pod }: { readonly vmi: VirtualMachineInstance; readonly pod: Pod | undefined },
  definitions: Definitions,
  { nodes }: Pick<Deps, "nodes">,
): UnavailableNetworks {
  const node = pod?.spec.nodeName;
  const named = listNetworkNames(vmi, {});
  const own = new Map([...definitions].filter(([network]) => named.includes(network)));
  if (node === undefined || findUnavailableNetworks(node, own, []).size === 0) return new Map();
  const others = nodes.list().filter((each) => !isNodeUnresponsive(each));
  return findUnavailableNetworks(node, own, others.map(({ metadata }) => metadata.name).toSorted());
}

function toLauncherKey(vmi: VirtualMachineInstance): ObjectKey {
  return {
    namespace: vmi.metadata.namespace ?? "",
    name: ownerPodName(vmi),
  };
}

/** Whether a missing pod has a final consequence: the end of the guest or of the VMI. */
function endsWithoutPod(vmi: VirtualMachineInstance): boolean {
  if (vmi.metadata.deletionTimestamp !== undefined) {
    return vmi.metadata.finalizers?.includes(names.VMI_FINALIZER) === true;
  }
  return vmi.status?.activePods !== undefined && !isVmiFinal(vmi);
}

/** The VMI's launcher pod. The cache may be stale or filtered, so the server is read before anything ends. */
async function findLauncher(vmi: VirtualMachineInstance, deps: Deps): Promise<Pod | undefined> {
  const key = toLauncherKey(vmi);
  const isOwn = (pod: Pod | undefined): pod is Pod => pod !== undefined && isLauncherOf(pod, vmi);
  const cached = deps.pods.find(key);
  if (isOwn(cached)) return deps.mutationCache.newest(cached);
  const live = endsWithoutPod(vmi) ? await deps.store.find(PODS, key) : undefined;
  return isOwn(live) ? live : undefined;
}

/** Sets whether the API server keeps image volumes of the new pod. */
async function withImageVolumes(facts: VmiFacts, deps: Deps): Promise<VmiFacts> {
  const { pod } = facts;
  if (pod !== undefined && hasMissingImage(pod)) deps.imageVolumes.reportLost();
  const testPod = planImageVolumeProbe(facts);
  if (testPod === undefined) return facts;
  const supportsImageVolumes = await deps.imageVolumes.areSupported(testPod);
  return { ...facts, settings: { ...facts.settings, supportsImageVolumes } };
}

function findDefinitions(
  vmi: VirtualMachineInstance,
  { bindings }: NetworkConfig,
  { nads }: Deps,
): Definitions {
  const found = listNetworkNames(vmi, bindings).flatMap((network) => {
    const nad = nads.find(parseKey(network));
    return nad === undefined ? [] : [[network, nad] as const];
  });
  return new Map(found);
}

/** The facts of a VMI, including this process's own writes; undefined when it is deleted. */
export async function observeVmi(key: string, deps: Deps): Promise<VmiFacts | undefined> {
  const cached = deps.vmis.find(parseKey(key));
  if (cached === undefined) return undefined;
  const vmi = deps.mutationCache.newest(cached);
  const pod = await findLauncher(vmi, deps);
  const kubevirt = deps.kubevirts.list()[0];
  const nodes = deps.nodes.list();
  const settings = {
    image: deps.launcherImage,
    sidecarShimImage: deps.sidecarShimImage,
    useEmulation: usesEmulation(kubevirt),
    logsConsoles: logsSerialConsoles(kubevirt),
    supportsImageVolumes: false,
    overcommit: readOvercommitConfig(kubevirt),
    ...(nodes.length > 0 && { offeredResources: offeredResources(nodes) }),
  };
  const storage = { claims: findClaims(vmi, deps.claims), config: readStorageConfig(kubevirt) };
  const network = networkConfigOf(kubevirt);
  const nodeLoss = findLoss(pod, deps);
  const lost = nodeLoss === undefined ? {} : { nodeLoss };
  const definitions = findDefinitions(vmi, network, deps);
  const absences = findAbsences({ vmi, pod }, definitions, deps);
  const known = { network, storage, definitions, absences };
  return withImageVolumes({ vmi, pod, settings, ...known, ...lost }, deps);
}
