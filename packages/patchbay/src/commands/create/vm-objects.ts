// SPDX-License-Identifier: Apache-2.0
// Which objects make the VM that a person has asked for? Pure.
import {
  PERSISTENT_VOLUME_CLAIMS,
  SECRETS,
  VIRTUAL_MACHINES,
  type KubeObject,
  type Matcher,
  type PersistentVolumeClaim,
  type ResourceType,
  type Secret,
  type VirtualMachine,
} from "@patchbay/api";
import { AppError } from "@patchbay/core/errors";
import { VOLUME_FLAGS, type VolumeOrder } from "./order-flags.ts";

/** What is asked for; amounts as Kubernetes writes them. */
export interface VmOrder {
  readonly name: string;
  /** Absent: that of whoever creates it. */
  readonly namespace: string | undefined;
  /** At least one; they stand before all other disks. */
  readonly volumes: readonly VolumeOrder[];
  /** Size of a claim that is filled once from the image of the volume {@link ROOT}; unset: that disk is created anew at each start. */
  readonly rootSize?: string;
  /** Absent: the instancetype says it. */
  readonly size: { readonly memory: string; readonly cpus: number } | undefined;
  readonly instancetype: Matcher | undefined;
  readonly preference: Matcher | undefined;
  readonly userData: string;
  readonly networkData?: string;
  /** Sizes. */
  readonly disks: readonly string[];
  /** NAME or NAMESPACE/NAME of NetworkAttachmentDefinitions. */
  readonly networks: readonly string[];
  /** By the name of the interface; one without is given a MAC by admission, or by CNI. */
  readonly macs: ReadonlyMap<string, string>;
  readonly isStopped: boolean;
}

/** A secret as a person writes it: the server makes base64 of it. Source: Kubernetes core/v1 Secret. */
export interface NewSecret extends Secret {
  readonly stringData: Readonly<Record<string, string>>;
}

/** All of it; the secret goes with the VM, claims stay. */
export interface VmObjects {
  readonly claims: readonly PersistentVolumeClaim[];
  readonly vm: VirtualMachine;
  readonly secret: NewSecret;
}

type Template = VirtualMachine["spec"]["template"]["spec"];
type Devices = Template["domain"]["devices"];

/** Name of the volume of `--image`. */
export const ROOT = "root";
/** Names within the VM. */
const CLOUD_INIT = "cloud-init";
const POD_NETWORK = "default";
/** Keys of the secret. Source: KubeVirt cloud-init. */
const USER_DATA = "userdata";
const NETWORK_DATA = "networkdata";

function headOf<T extends KubeObject>(
  { group, version, kind }: ResourceType<T>,
  name: string,
  { namespace }: VmOrder,
): Pick<KubeObject, "apiVersion" | "kind" | "metadata"> {
  const apiVersion = group === "" ? version : `${group}/${version}`;
  return { apiVersion, kind, metadata: { name, ...(namespace !== undefined && { namespace }) } };
}

/** Of the disks that stay, from 1: names within the VM, and the serial numbers that the guest sees. */
function diskNames({ disks }: VmOrder): readonly string[] {
  return disks.map((_, index) => `disk-${String(index + 1)}`);
}

function claimName({ name }: VmOrder, disk: string): string {
  return `${name}-${disk}`;
}

function secretName({ name }: VmOrder): string {
  return `${name}-cloud-init`;
}

function claimsOf(order: VmOrder): readonly PersistentVolumeClaim[] {
  return diskNames(order).map((disk, index) => ({
    ...headOf(PERSISTENT_VOLUME_CLAIMS, claimName(order, disk), order),
    spec: {
      accessModes: ["ReadWriteOnce"],
      resources: { requests: { storage: order.disks[index] ?? "" } },
    },
  }));
}

type DataVolumeTemplate = NonNullable<VirtualMachine["spec"]["dataVolumeTemplates"]>[number];

/** The image whose disk is copied into a claim once. */
function keptImageOf({ volumes, rootSize }: VmOrder): string | undefined {
  const source = volumes.find(({ name }) => name === ROOT)?.source;
  return rootSize !== undefined && source !== undefined && "image" in source
    ? source.image
    : undefined;
}

function dataVolumesOf(order: VmOrder): DataVolumeTemplate[] {
  const image = keptImageOf(order);
  if (image === undefined) return [];
  const storage = {
    accessModes: ["ReadWriteOnce"],
    resources: { requests: { storage: order.rootSize ?? "" } },
  };
  const source = { registry: { url: `docker://${image}` } };
  return [{ metadata: { name: claimName(order, ROOT) }, spec: { source, storage } }];
}

function bootVolumeManifest(order: VmOrder, { name, source }: VolumeOrder) {
  if (!("image" in source)) return { name, persistentVolumeClaim: { claimName: source.claim } };
  if (name === ROOT && keptImageOf(order) !== undefined) {
    return { name, dataVolume: { name: claimName(order, ROOT) } };
  }
  return { name, containerDisk: { image: source.image, imagePullPolicy: "IfNotPresent" } };
}

function volumesOf(order: VmOrder): NonNullable<Template["volumes"]> {
  const secretRef = { name: secretName(order) };
  const networkDataSecretRef =
    order.networkData === undefined ? {} : { networkDataSecretRef: secretRef };
  return [
    ...order.volumes.map((volume) => bootVolumeManifest(order, volume)),
    { name: CLOUD_INIT, cloudInitNoCloud: { secretRef, ...networkDataSecretRef } },
    ...diskNames(order).map((name) => ({
      name,
      persistentVolumeClaim: { claimName: claimName(order, name) },
    })),
  ];
}

/** The last part of a network's name is the iface's. */
function ifaceName(network: string): string {
  return network.split("/").at(-1) ?? network;
}

/** @throws AppError with FLAG_INVALID when two of them would have one name */
function checkDiskNames(order: VmOrder): void {
  const names = [...order.volumes.map(({ name }) => name), CLOUD_INIT, ...diskNames(order)];
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice === undefined) return;
  const reason = `two disks would be named ${twice}; name one of them otherwise with name:…`;
  throw new AppError("FLAG_INVALID", { flag: VOLUME_FLAGS, reason });
}

/**
 * The pod network's interface, and one for each network.
 * @throws AppError with FLAG_INVALID when two of them would have one name
 */
export function ifaceNames({ networks }: Pick<VmOrder, "networks">): readonly string[] {
  const names = [POD_NETWORK, ...networks.map(ifaceName)];
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice === undefined) return names;
  const reason = `two interfaces would be named ${twice}; add one of them later with: patchbay addinterface`;
  throw new AppError("FLAG_INVALID", { flag: "--network", reason });
}

function devicesOf(order: VmOrder): NonNullable<Devices> {
  // What the VM says, a preference does not.
  const disk = order.preference === undefined ? { bus: "virtio" } : {};
  return {
    disks: [
      ...order.volumes.map(({ name, bootOrder }) => ({
        name,
        ...(bootOrder === undefined ? {} : { bootOrder }),
        disk,
      })),
      { name: CLOUD_INIT, disk },
      ...diskNames(order).map((name) => ({ name, serial: name, disk })),
    ],
    interfaces: ifaceNames(order).map((name) => {
      const macAddress = order.macs.get(name);
      return { name, bridge: {}, ...(macAddress !== undefined && { macAddress }) };
    }),
  };
}

function networksOf(order: VmOrder): NonNullable<Template["networks"]> {
  return [
    { name: POD_NETWORK, pod: {} },
    ...order.networks.map((networkName) => ({
      name: ifaceName(networkName),
      multus: { networkName },
    })),
  ];
}

function secretOf(order: VmOrder): NewSecret {
  const { userData, networkData } = order;
  return {
    ...headOf(SECRETS, secretName(order), order),
    stringData: {
      [USER_DATA]: userData,
      ...(networkData !== undefined && { [NETWORK_DATA]: networkData }),
    },
  };
}

/**
 * The objects of a VM.
 * @throws AppError with FLAG_INVALID
 */
export function vmObjectsOf(order: VmOrder): VmObjects {
  checkDiskNames(order);
  const { size, instancetype, preference, isStopped } = order;
  const spec: Template = {
    domain: {
      ...(size === undefined ? {} : { cpu: { cores: size.cpus }, memory: { guest: size.memory } }),
      devices: devicesOf(order),
    },
    networks: networksOf(order),
    volumes: volumesOf(order),
  };
  const dataVolumeTemplates = dataVolumesOf(order);
  const vm: VirtualMachine = {
    ...headOf(VIRTUAL_MACHINES, order.name, order),
    spec: {
      runStrategy: isStopped ? "Halted" : "Always",
      ...(instancetype === undefined ? {} : { instancetype }),
      ...(preference === undefined ? {} : { preference }),
      ...(dataVolumeTemplates.length === 0 ? {} : { dataVolumeTemplates }),
      template: { spec },
    },
  };
  return { claims: claimsOf(order), vm, secret: secretOf(order) };
}
