// SPDX-License-Identifier: Apache-2.0
// Objects of a new VM: claims, secret and the VM itself. Pure.
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

/** Settings of a new VM; amounts in Kubernetes' notation. */
export interface VmOrder {
  readonly name: string;
  /** Unset: the namespace of the client that creates it. */
  readonly namespace: string | undefined;
  /** At least one volume; they precede all other disks. */
  readonly volumes: readonly VolumeOrder[];
  /** Size of a claim that is filled once from the image of the volume {@link ROOT}; unset: the disk is created anew at each start. */
  readonly rootSize?: string;
  /** Undefined if an instancetype defines it. */
  readonly size: { readonly memory: string; readonly cpus: number } | undefined;
  readonly instancetype: Matcher | undefined;
  readonly preference: Matcher | undefined;
  readonly userData: string;
  readonly networkData?: string;
  /** Sizes. */
  readonly disks: readonly string[];
  /** NAME or NAMESPACE/NAME of NetworkAttachmentDefinitions. */
  readonly networks: readonly string[];
  /** By the name of the interface; admission or CNI chooses the MAC of the others. */
  readonly macs: ReadonlyMap<string, string>;
  readonly isStopped: boolean;
}

/** A secret in plain text, which the API server encodes as base64. Source: Kubernetes core/v1 Secret. */
export interface NewSecret extends Secret {
  readonly stringData: Readonly<Record<string, string>>;
}

/** Deleting the VM deletes the secret, and keeps the claims. */
export interface VmObjects {
  readonly claims: readonly PersistentVolumeClaim[];
  readonly vm: VirtualMachine;
  readonly secret: NewSecret;
}

type Template = VirtualMachine["spec"]["template"]["spec"];
type Devices = Template["domain"]["devices"];

/** Name of the volume of `--image`. */
export const ROOT = "root";
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

/** Names of the persistent disks within the VM, numbered from 1; also the serial numbers that the guest sees. */
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

/** Image whose disk is copied into a claim once. */
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

/** The last part of a network's name is the name of its interface. */
function ifaceName(network: string): string {
  return network.split("/").at(-1) ?? network;
}

/** @throws AppError with FLAG_INVALID if two disks would have the same name */
function checkDiskNames(order: VmOrder): void {
  const names = [...order.volumes.map(({ name }) => name), CLOUD_INIT, ...diskNames(order)];
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice === undefined) return;
  const reason = `two disks would be named ${twice}; name one of them otherwise with name:…`;
  throw new AppError("FLAG_INVALID", { flag: VOLUME_FLAGS, reason });
}

/**
 * Names of the pod network's interface, and of one interface per network.
 * @throws AppError with FLAG_INVALID if two interfaces would have the same name
 */
export function ifaceNames({ networks }: Pick<VmOrder, "networks">): readonly string[] {
  const names = [POD_NETWORK, ...networks.map(ifaceName)];
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice === undefined) return names;
  const reason = `two interfaces would be named ${twice}; add one of them later with: patchbay addinterface`;
  throw new AppError("FLAG_INVALID", { flag: "--network", reason });
}

function devicesOf(order: VmOrder): NonNullable<Devices> {
  // A preference applies only to fields that the VM leaves unset.
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

/** @throws AppError with FLAG_INVALID */
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
