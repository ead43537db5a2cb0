// SPDX-License-Identifier: Apache-2.0
import { isDefaultNetwork, type Attachment, type Network } from "@patchbay/api";
import type { NetworkSelection } from "@patchbay/api/annotations";
import { findByName, networkNameOf } from "./nics.ts";
import { buildPodInterfaceName, buildSwapInterfaceName, buildRenamedNicName } from "./names.ts";
import type { Link } from "../interfaces/node/pod-network.ts";

/** A pod NIC and its network as NAMESPACE/NAME. */
interface PodNic {
  readonly podInterfaceName: string;
  readonly networkName: string;
}

export interface PodNicSources {
  readonly namespace: string;
  readonly attachments: readonly Attachment[];
  readonly nics: readonly PodNic[];
}

/** Checks whether the attachment is on the network. Returns true if the attachment has no network name. */
export function isOnNetwork(attachment: Attachment, networkName: string | undefined): boolean {
  return attachment.networkName === undefined || attachment.networkName === networkName;
}

export function findNetworkName(
  networks: readonly Network[],
  name: string,
  namespace: string,
): string | undefined {
  const network = findByName(networks, name);
  return network === undefined ? undefined : networkNameOf(network, namespace);
}

export function toPodNics(
  elements: readonly NetworkSelection[],
  podNamespace: string,
): readonly PodNic[] {
  return elements.flatMap(({ name, namespace = "", interface: podInterfaceName }) =>
    podInterfaceName === undefined
      ? []
      : [
          {
            podInterfaceName,
            networkName: `${namespace === "" ? podNamespace : namespace}/${name}`,
          },
        ],
  );
}

/** Prefers an existing NIC's name, then KubeVirt's name, then a name specific to the network. */
export function choosePodNic(network: Network, sources: PodNicSources): string {
  const { namespace, attachments, nics } = sources;
  const defaultNic = buildPodInterfaceName(network);
  if (isDefaultNetwork(network)) return defaultNic;
  const networkName = networkNameOf(network, namespace) ?? "";
  const reported = attachments.filter(({ name }) => name === network.name);
  const onNetwork = reported.find((attachment) => isOnNetwork(attachment, networkName));
  if (onNetwork !== undefined) return onNetwork.podInterfaceName;
  const swapNic = buildSwapInterfaceName(network.name, networkName);
  const isOnThisNetwork = (name: string): boolean =>
    nics.some((nic) => nic.podInterfaceName === name && nic.networkName === networkName);
  const existing = [defaultNic, swapNic].find(isOnThisNetwork);
  if (existing !== undefined) return existing;
  const isInUse = [...reported, ...nics].some(
    ({ podInterfaceName }) => podInterfaceName === defaultNic,
  );
  return isInUse ? swapNic : defaultNic;
}

/**
 * Finds a NIC that KubeVirt renamed. Outside a bridge, ignores the NIC if its old name is in use.
 * Source: KubeVirt network/setup/netpod/netpod.go.
 */
export function findRenamedNic(
  links: readonly Pick<Link, "name" | "master">[],
  podInterfaceName: string,
): string | undefined {
  const renamed = links.find(({ name }) => name === buildRenamedNicName(podInterfaceName));
  if (renamed === undefined) return undefined;
  const isNameFree = links.every(({ name }) => name !== podInterfaceName);
  return isNameFree || renamed.master !== undefined ? renamed.name : undefined;
}
