// SPDX-License-Identifier: Apache-2.0
// Which NIC in the pod does an iface have on a network? The one that it has on another network keeps its name meanwhile.
import {
  isDefaultNetwork,
  type Attachment,
  type Network,
  type NetworkSelection,
} from "@patchbay/api";
import { findByName, networkNameOf } from "../spec/nics.ts";
import { podInterfaceNameOf, spareInterfaceNameOf } from "./names.ts";

/** A NIC in the pod, and its network as NAMESPACE/NAME. */
export interface PodNic {
  readonly podInterfaceName: string;
  readonly networkName: string;
}

/** What is known of the pod. */
export interface PodNicSources {
  /** Namespace of the VMI, in which unqualified names of networks are. */
  readonly namespace: string;
  /** What was told of the VMI's ifaces. */
  readonly attachments: readonly Attachment[];
  /** What the pod asks for or has, told or not. */
  readonly nics: readonly PodNic[];
}

/** Whether an attachment is one to that network; one that does not say its network is taken to be. */
export function isOn(attachment: Attachment, networkName: string | undefined): boolean {
  return attachment.networkName === undefined || attachment.networkName === networkName;
}

/** The network of an attachment's iface, as the specification names it. */
export function networkNameIn(
  networks: readonly Network[],
  name: string,
  namespace: string,
): string | undefined {
  const network = findByName(networks, name);
  return network === undefined ? undefined : networkNameOf(network, namespace);
}

/** Elements of the pod's annotation as NICs. */
export function nicsOfElements(
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
 * The NIC of the network's iface on that network: the one that it has there, else the one by KubeVirt's scheme, else,
 * while that is on another network, one whose name tells the networks apart.
 */
export function podNicOf(network: Network, sources: PodNicSources): string {
  const { namespace, attachments, nics } = sources;
  const usual = podInterfaceNameOf(network);
  if (isDefaultNetwork(network)) return usual;
  const networkName = networkNameOf(network, namespace) ?? "";
  const told = attachments.filter(({ name }) => name === network.name);
  const here = told.find((attachment) => isOn(attachment, networkName));
  if (here !== undefined) return here.podInterfaceName;
  const spare = spareInterfaceNameOf(network.name, networkName);
  const has = (name: string): boolean =>
    nics.some((nic) => nic.podInterfaceName === name && nic.networkName === networkName);
  const there = [usual, spare].find(has);
  if (there !== undefined) return there;
  const isTaken = [...told, ...nics].some(({ podInterfaceName }) => podInterfaceName === usual);
  return isTaken ? spare : usual;
}
