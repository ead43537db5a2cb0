// SPDX-License-Identifier: Apache-2.0
// Chooses the pod NIC of an interface on a network. During a network swap the old NIC keeps its name.
import { isDefaultNetwork, type Attachment, type Network } from "@patchbay/api";
import type { NetworkSelection } from "@patchbay/api/annotations";
import { findByName, networkNameOf } from "./nics.ts";
import { podInterfaceNameOf, buildSpareInterfaceName, buildMovedName } from "./names.ts";
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

/** Whether the attachment is on the network. An attachment that names no network is assumed to be. */
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
 * Returns the pod NIC for the network: the existing one, or else the one by KubeVirt's scheme. While that is on another
 * network, returns a spare one, whose name is derived from the network as well.
 */
export function choosePodNic(network: Network, sources: PodNicSources): string {
  const { namespace, attachments, nics } = sources;
  const usual = podInterfaceNameOf(network);
  if (isDefaultNetwork(network)) return usual;
  const networkName = networkNameOf(network, namespace) ?? "";
  const reported = attachments.filter(({ name }) => name === network.name);
  const onNetwork = reported.find((attachment) => isOnNetwork(attachment, networkName));
  if (onNetwork !== undefined) return onNetwork.podInterfaceName;
  const spare = buildSpareInterfaceName(network.name, networkName);
  const has = (name: string): boolean =>
    nics.some((nic) => nic.podInterfaceName === name && nic.networkName === networkName);
  const existing = [usual, spare].find(has);
  if (existing !== undefined) return existing;
  const isTaken = [...reported, ...nics].some(({ podInterfaceName }) => podInterfaceName === usual);
  return isTaken ? spare : usual;
}

/**
 * Returns the current name of a pod NIC that KubeVirt's virt-handler has wired, or undefined if the name is unchanged.
 * virt-handler renames the NIC, makes it a bridge port, and creates a dummy with the old name and addresses, which CNI plugins
 * would mistake for the NIC. If a link with the old name exists, a NIC with the new name that is no port is a leftover.
 * Source: KubeVirt network/setup/netpod/netpod.go.
 */
export function findMovedNic(
  links: readonly Pick<Link, "name" | "master">[],
  podInterfaceName: string,
): string | undefined {
  const swapped = links.find(({ name }) => name === buildMovedName(podInterfaceName));
  if (swapped === undefined) return undefined;
  const isNameFree = links.every(({ name }) => name !== podInterfaceName);
  return isNameFree || swapped.master !== undefined ? swapped.name : undefined;
}
