// SPDX-License-Identifier: Apache-2.0
// Which facts the VMI's part looks at.
import {
  type PersistentVolumeClaim,
  type VirtualMachineInstance,
  type Pod,
  isVmiFinal,
  names,
  networkConfigOf,
  overcommitConfigOf,
  PODS,
  storageConfigOf,
  logsConsoles,
  usesEmulation,
  type NetworkConfig,
} from "@patchbay/api";
import {
  claimNamesOf,
  type VmiFacts,
  isNodeLost,
  networkNamesOf,
  networksNotOn,
  nodeLossOf,
  type Definitions,
  type NetworkAbsences,
  type NodeLoss,
  hasLostImage,
  isLauncherOf,
  offeredResources,
  ownerPodName,
  planImageQuestion,
} from "@patchbay/core";
import type { Cache, ObjectKey } from "@patchbay/core/ports";
import type { Deps } from "../../deps.ts";
import { parseKey } from "@patchbay/kube";

/** The claims that the VMI uses, as far as they are there. */
export function claimsOf(
  vmi: VirtualMachineInstance,
  claims: Pick<Cache<PersistentVolumeClaim>, "find">,
): VmiFacts["storage"]["claims"] {
  const { namespace = "" } = vmi.metadata;
  const found = claimNamesOf(vmi).flatMap((name) => {
    const claim = claims.find({ namespace, name });
    return claim === undefined ? [] : [[name, claim] as const];
  });
  return new Map(found);
}

/** What is told of the pod's node where it does not answer. */
export function findLoss(
  pod: Pod | undefined,
  { nodes }: Pick<Deps, "nodes">,
): NodeLoss | undefined {
  const name = pod?.spec.nodeName;
  return name === undefined ? undefined : nodeLossOf(nodes.find({ name }));
}

/**
 * What the pod's node cannot make NICs of, of the networks that the VMI names itself: of one that a binding brings along only
 * the node has words. The other nodes are listed only where it matters.
 */
export function findAbsences(
  { vmi, pod }: { readonly vmi: VirtualMachineInstance; readonly pod: Pod | undefined },
  definitions: Definitions,
  { nodes }: Pick<Deps, "nodes">,
): NetworkAbsences {
  const node = pod?.spec.nodeName;
  const named = networkNamesOf(vmi, {});
  const own = new Map([...definitions].filter(([network]) => named.includes(network)));
  if (node === undefined || networksNotOn(node, own, []).size === 0) return new Map();
  const others = nodes.list().filter((each) => !isNodeLost(each));
  return networksNotOn(node, own, others.map(({ metadata }) => metadata.name).toSorted());
}

/** Where the owner's pod is, if there is one: its name is a function of uids. */
function launcherKeyOf(vmi: VirtualMachineInstance): ObjectKey {
  return {
    namespace: vmi.metadata.namespace ?? "",
    name: ownerPodName(vmi),
  };
}

/** Whether something final follows from a pod that is not there: the guest's end, or the VMI's. */
function endsWithoutPod(vmi: VirtualMachineInstance): boolean {
  if (vmi.metadata.deletionTimestamp !== undefined) {
    return vmi.metadata.finalizers?.includes(names.VMI_FINALIZER) === true;
  }
  return vmi.status?.activePods !== undefined && !isVmiFinal(vmi);
}

/** The VMI's own pod. A cache may be behind or see less: before anything ends, the server is asked. */
async function findLauncher(vmi: VirtualMachineInstance, deps: Deps): Promise<Pod | undefined> {
  const key = launcherKeyOf(vmi);
  const isOwn = (pod: Pod | undefined): pod is Pod => pod !== undefined && isLauncherOf(pod, vmi);
  const cached = deps.pods.find(key);
  if (isOwn(cached)) return deps.ownWrites.newest(cached);
  const live = endsWithoutPod(vmi) ? await deps.store.find(PODS, key) : undefined;
  return isOwn(live) ? live : undefined;
}

/** Settings under which the pod that is to be made keeps its images. */
async function withImageVolumes(facts: VmiFacts, deps: Deps): Promise<VmiFacts> {
  const { pod } = facts;
  if (pod !== undefined && hasLostImage(pod)) deps.imageVolumes.wereLost();
  const question = planImageQuestion(facts);
  if (question === undefined) return facts;
  const keepsImageVolumes = await deps.imageVolumes.areKept(question);
  return { ...facts, settings: { ...facts.settings, keepsImageVolumes } };
}

/** The definitions of the VMI's networks, and of those that bindings bring along, as far as they are there. */
function definitionsOf(
  vmi: VirtualMachineInstance,
  { bindings }: NetworkConfig,
  { nads }: Deps,
): Definitions {
  const found = networkNamesOf(vmi, bindings).flatMap((network) => {
    const nad = nads.find(parseKey(network));
    return nad === undefined ? [] : [[network, nad] as const];
  });
  return new Map(found);
}

/** The facts of a VMI, as new as this process's own writes; undefined when it is gone. */
export async function observeVmi(key: string, deps: Deps): Promise<VmiFacts | undefined> {
  const cached = deps.vmis.find(parseKey(key));
  if (cached === undefined) return undefined;
  const vmi = deps.ownWrites.newest(cached);
  const pod = await findLauncher(vmi, deps);
  const kubevirt = deps.kubevirts.list()[0];
  const nodes = deps.nodes.list();
  const settings = {
    image: deps.launcherImage,
    sidecarShimImage: deps.sidecarShimImage,
    useEmulation: usesEmulation(kubevirt),
    logsConsoles: logsConsoles(kubevirt),
    keepsImageVolumes: false,
    overcommit: overcommitConfigOf(kubevirt),
    ...(nodes.length > 0 && { offeredResources: offeredResources(nodes) }),
  };
  const storage = { claims: claimsOf(vmi, deps.claims), config: storageConfigOf(kubevirt) };
  const network = networkConfigOf(kubevirt);
  const nodeLoss = findLoss(pod, deps);
  const lost = nodeLoss === undefined ? {} : { nodeLoss };
  const definitions = definitionsOf(vmi, network, deps);
  const absences = findAbsences({ vmi, pod }, definitions, deps);
  const known = { network, storage, definitions, absences };
  return withImageVolumes({ vmi, pod, settings, ...known, ...lost }, deps);
}
