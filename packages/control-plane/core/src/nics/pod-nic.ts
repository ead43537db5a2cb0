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

/**
 * Returns the name of the network's pod NIC: an existing NIC's name, or else KubeVirt's name for a new NIC. If a NIC on another
 * network has that name, the new name also depends on the NetworkAttachmentDefinition.
 */
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
 * Returns the current name of a pod NIC that KubeVirt's virt-handler renamed; undefined if the NIC was not renamed. virt-handler makes the
 * renamed NIC a bridge port and creates a dummy link with the old name. If another link has the old name and the renamed NIC is not a
 * bridge port, the renamed NIC is ignored as a leftover. Source: KubeVirt network/setup/netpod/netpod.go.
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
