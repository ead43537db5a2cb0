// SPDX-License-Identifier: Apache-2.0
// Builds the NIC details that a binding may request through the downward API. Source: KubeVirt pkg/network/downwardapi.
import {
  isDefaultNetwork,
  names,
  type BindingPlugin,
  type Iface,
  type Network,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { parseNetworkStatus, parseNetworks, type NetworkStatus } from "@patchbay/api/annotations";
import type { JsonObject } from "@patchbay/api/json";
import type { Pod, PodVolume, VolumeMount } from "@patchbay/api/kubernetes";
import { parseMac } from "@patchbay/api/values";
import { resolveBinding } from "../../nics/bindings/resolve-binding.ts";
import { toPodNics, choosePodNic, type PodNicSources } from "../../nics/pod-nic.ts";
import { findByName, ifacesOf, networksOf } from "../../nics/nics.ts";
import type { NetworksOwner } from "./pod-networks.ts";

const DEVICE_INFO: BindingPlugin["downwardAPI"] = "device-info";
const INFO_VOLUME = "podinfo";
/** Source: KubeVirt pkg/network/downwardapi, MountPath and NetworkInfoVolumePath. */
const [INFO_DIRECTORY, INFO_FILE] = ["/etc/podinfo", "network-info"];

/** NIC details. The keys are in KubeVirt's order. */
interface InterfaceInfo {
  readonly network: string;
  readonly deviceInfo?: JsonObject;
  readonly mac?: string;
  readonly mtu?: number;
}

function needsInfo(iface: Iface, network: Network, { bindings }: NetworksOwner): boolean {
  const name = iface.binding?.name ?? "";
  if (isDefaultNetwork(network) || network.resourceClaim !== undefined) return false;
  if (resolveBinding(iface, network, bindings).kind === "refused") return false;
  return Object.hasOwn(bindings, name) && bindings[name]?.downwardAPI === DEVICE_INFO;
}

function listNetworksWithInfo(owner: NetworksOwner): readonly Network[] {
  const networks = networksOf(owner.vmi.spec);
  return ifacesOf(owner.vmi.spec)
    .flatMap((iface) => {
      const network = findByName(networks, iface.name);
      return network !== undefined && needsInfo(iface, network, owner) ? [network] : [];
    })
    .toSorted((left, right) => (left.name < right.name ? -1 : 1));
}

function toInfo({ name: network }: Network, entry: NetworkStatus): InterfaceInfo {
  const { mac = "", mtu } = entry;
  const deviceInfo = entry["device-info"];
  return {
    network,
    ...(typeof deviceInfo === "object" && deviceInfo !== null && { deviceInfo: { ...deviceInfo } }),
    ...(parseMac(mac) !== undefined && { mac }),
    ...(Number.isInteger(mtu) && { mtu }),
  };
}

function collectSources({ metadata, status }: VirtualMachineInstance, pod: Pod): PodNicSources {
  const namespace = metadata.namespace ?? "";
  const parsed = parseNetworks(pod.metadata.annotations?.[names.NETWORKS_ANNOTATION]);
  return {
    namespace,
    attachments: status?.attachments ?? [],
    nics: toPodNics(parsed.ok ? parsed.elements : [], namespace),
  };
}

/** Returns the value of the network info annotation. Returns undefined if no NIC needs the annotation. */
export function printNetworkInfo(owner: NetworksOwner, pod: Pod): string | undefined {
  const networks = listNetworksWithInfo(owner);
  if (networks.length === 0) return undefined;
  const sources = collectSources(owner.vmi, pod);
  const entries = parseNetworkStatus(pod.metadata.annotations?.[names.NETWORK_STATUS_ANNOTATION]);
  const interfaces = networks.flatMap((network) => {
    const nic = choosePodNic(network, sources);
    const entry = entries.find((candidate) => candidate.interface === nic);
    return entry === undefined ? [] : [toInfo(network, entry)];
  });
  return JSON.stringify(interfaces.length === 0 ? {} : { interfaces });
}

export function buildNetworkInfoVolume(
  owner: NetworksOwner,
): { readonly volume: PodVolume; readonly mount: VolumeMount } | undefined {
  if (listNetworksWithInfo(owner).length === 0) return undefined;
  const fieldPath = `metadata.annotations['${names.NETWORK_INFO_ANNOTATION}']`;
  return {
    volume: {
      name: INFO_VOLUME,
      downwardAPI: { items: [{ path: INFO_FILE, fieldRef: { fieldPath } }] },
    },
    mount: { name: INFO_VOLUME, mountPath: INFO_DIRECTORY },
  };
}
