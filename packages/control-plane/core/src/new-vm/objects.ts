// SPDX-License-Identifier: Apache-2.0
import {
  PERSISTENT_VOLUME_CLAIMS,
  SECRETS,
  VIRTUAL_MACHINES,
  type Matcher,
  type ResourceType,
  type VirtualMachine,
} from "@patchbay/api";
import type { KubeObject, PersistentVolumeClaim, Secret } from "@patchbay/api/kubernetes";

/** Disk that is created from an image at each start, or an existing PersistentVolumeClaim. */
export interface NewVolume {
  readonly name: string;
  readonly source: { readonly image: string } | { readonly claim: string };
  /** Position in the boot order, starting at 1. */
  readonly bootOrder?: number;
}

/** Settings of a new VM. Amounts are Kubernetes quantities. */
export interface NewVm {
  readonly name: string;
  /** Namespace; undefined for the default namespace of the client. */
  readonly namespace: string | undefined;
  /** Volumes, at least one. Their disks precede all other disks of the guest. */
  readonly volumes: readonly NewVolume[];
  /** Size of a claim that is filled once from the image of volume {@link ROOT}. Unset if each start recreates the disk from the image. */
  readonly rootSize?: string;
  /** Memory and CPUs; undefined if an instancetype defines them. */
  readonly size: { readonly memory: string; readonly cpus: number } | undefined;
  readonly instancetype: Matcher | undefined;
  readonly preference: Matcher | undefined;
  readonly userData: string;
  readonly networkData?: string;
  /** Sizes of the additional disks. */
  readonly disks: readonly string[];
  /** NetworkAttachmentDefinitions, as NAME or NAMESPACE/NAME. */
  readonly networks: readonly string[];
  /** MACs by interface name. An interface without an entry gets its MAC from admission or CNI. */
  readonly macs: ReadonlyMap<string, string>;
  readonly isStopped: boolean;
}

/** Secret in plain text, which the API server encodes in base64. Source: Kubernetes core/v1 Secret. */
export interface NewSecret extends Secret {
  readonly stringData: Readonly<Record<string, string>>;
}

/** Objects of a VM. Deleting the VM deletes its secret but not its claims. */
export interface VmObjects {
  readonly claims: readonly PersistentVolumeClaim[];
  readonly vm: VirtualMachine;
  readonly secret: NewSecret;
}

type Template = VirtualMachine["spec"]["template"]["spec"];
type Devices = Template["domain"]["devices"];

/** Name of the volume that the option `--image` of `create vm` defines. */
export const ROOT = "root";
const CLOUD_INIT = "cloud-init";
const POD_NETWORK = "default";
/** Keys of cloud-init data in the VM's secret. Source: KubeVirt cloud-init. */
const USER_DATA = "userdata";
const NETWORK_DATA = "networkdata";

function objectHead<T extends KubeObject>(
  { group, version, kind }: ResourceType<T>,
  name: string,
  { namespace }: NewVm,
): Pick<KubeObject, "apiVersion" | "kind" | "metadata"> {
  const apiVersion = group === "" ? version : `${group}/${version}`;
  return { apiVersion, kind, metadata: { name, ...(namespace !== undefined && { namespace }) } };
}

/** Returns the names of the additional disks. In the guest, each disk has its name as serial number. */
function diskNames({ disks }: NewVm): readonly string[] {
  return disks.map((_, index) => `disk-${String(index + 1)}`);
}

function claimName({ name }: NewVm, disk: string): string {
  return `${name}-${disk}`;
}

function secretName({ name }: NewVm): string {
  return `${name}-cloud-init`;
}

function buildClaims(newVm: NewVm): readonly PersistentVolumeClaim[] {
  return diskNames(newVm).map((disk, index) => ({
    ...objectHead(PERSISTENT_VOLUME_CLAIMS, claimName(newVm, disk), newVm),
    spec: {
      accessModes: ["ReadWriteOnce"],
      resources: { requests: { storage: newVm.disks[index] ?? "" } },
    },
  }));
}

type DataVolumeTemplate = NonNullable<VirtualMachine["spec"]["dataVolumeTemplates"]>[number];

function persistentImage({ volumes, rootSize }: NewVm): string | undefined {
  const source = volumes.find(({ name }) => name === ROOT)?.source;
  return rootSize !== undefined && source !== undefined && "image" in source
    ? source.image
    : undefined;
}

function buildDataVolumes(newVm: NewVm): DataVolumeTemplate[] {
  const image = persistentImage(newVm);
  if (image === undefined) return [];
  const storage = {
    accessModes: ["ReadWriteOnce"],
    resources: { requests: { storage: newVm.rootSize ?? "" } },
  };
  const source = { registry: { url: `docker://${image}` } };
  return [{ metadata: { name: claimName(newVm, ROOT) }, spec: { source, storage } }];
}

function bootVolumeManifest(newVm: NewVm, { name, source }: NewVolume) {
  if (!("image" in source)) return { name, persistentVolumeClaim: { claimName: source.claim } };
  if (name === ROOT && persistentImage(newVm) !== undefined) {
    return { name, dataVolume: { name: claimName(newVm, ROOT) } };
  }
  return { name, containerDisk: { image: source.image, imagePullPolicy: "IfNotPresent" } };
}

function buildVolumes(newVm: NewVm): NonNullable<Template["volumes"]> {
  const secretRef = { name: secretName(newVm) };
  const networkDataSecretRef =
    newVm.networkData === undefined ? {} : { networkDataSecretRef: secretRef };
  return [
    ...newVm.volumes.map((volume) => bootVolumeManifest(newVm, volume)),
    { name: CLOUD_INIT, cloudInitNoCloud: { secretRef, ...networkDataSecretRef } },
    ...diskNames(newVm).map((name) => ({
      name,
      persistentVolumeClaim: { claimName: claimName(newVm, name) },
    })),
  ];
}

function ifaceName(network: string): string {
  return network.split("/").at(-1) ?? network;
}

/** Returns the names of the interfaces. The first is the interface on the pod network. */
export function ifaceNames({ networks }: Pick<NewVm, "networks">): readonly string[] {
  return [POD_NETWORK, ...networks.map(ifaceName)];
}

function findDuplicate(names: readonly string[]): string | undefined {
  return names.find((name, index) => names.indexOf(name) !== index);
}

export interface NewVmProblem {
  readonly field: "volumes" | "networks";
  /** Name that two disks or two interfaces would have. */
  readonly name: string;
}

/** Returns the first duplicate name among the disks and the first among the interfaces. Empty if there are no duplicates. */
export function findNewVmProblems(newVm: NewVm): readonly NewVmProblem[] {
  const disk = findDuplicate([
    ...newVm.volumes.map(({ name }) => name),
    CLOUD_INIT,
    ...diskNames(newVm),
  ]);
  const iface = findDuplicate(ifaceNames(newVm));
  return [
    ...(disk === undefined ? [] : [{ field: "volumes", name: disk } as const]),
    ...(iface === undefined ? [] : [{ field: "networks", name: iface } as const]),
  ];
}

function buildDevices(newVm: NewVm): NonNullable<Devices> {
  // The bus stays unset if there is a preference, because a preference applies only to unset fields.
  const disk = newVm.preference === undefined ? { bus: "virtio" } : {};
  return {
    disks: [
      ...newVm.volumes.map(({ name, bootOrder }) => ({
        name,
        ...(bootOrder === undefined ? {} : { bootOrder }),
        disk,
      })),
      { name: CLOUD_INIT, disk },
      ...diskNames(newVm).map((name) => ({ name, serial: name, disk })),
    ],
    interfaces: ifaceNames(newVm).map((name) => {
      const macAddress = newVm.macs.get(name);
      return { name, bridge: {}, ...(macAddress !== undefined && { macAddress }) };
    }),
  };
}

function buildNetworks(newVm: NewVm): NonNullable<Template["networks"]> {
  return [
    { name: POD_NETWORK, pod: {} },
    ...newVm.networks.map((networkName) => ({
      name: ifaceName(networkName),
      multus: { networkName },
    })),
  ];
}

function buildSecret(newVm: NewVm): NewSecret {
  const { userData, networkData } = newVm;
  return {
    ...objectHead(SECRETS, secretName(newVm), newVm),
    stringData: {
      [USER_DATA]: userData,
      ...(networkData !== undefined && { [NETWORK_DATA]: networkData }),
    },
  };
}

/** Builds the objects of a VM for which {@link findNewVmProblems} reports no problems. */
export function createVmObjects(newVm: NewVm): VmObjects {
  const { size, instancetype, preference, isStopped } = newVm;
  const spec: Template = {
    domain: {
      ...(size === undefined ? {} : { cpu: { cores: size.cpus }, memory: { guest: size.memory } }),
      devices: buildDevices(newVm),
    },
    networks: buildNetworks(newVm),
    volumes: buildVolumes(newVm),
  };
  const dataVolumeTemplates = buildDataVolumes(newVm);
  const vm: VirtualMachine = {
    ...objectHead(VIRTUAL_MACHINES, newVm.name, newVm),
    spec: {
      runStrategy: isStopped ? "Halted" : "Always",
      ...(instancetype === undefined ? {} : { instancetype }),
      ...(preference === undefined ? {} : { preference }),
      ...(dataVolumeTemplates.length === 0 ? {} : { dataVolumeTemplates }),
      template: { spec },
    },
  };
  return { claims: buildClaims(newVm), vm, secret: buildSecret(newVm) };
}

/** Sets the secret's owner to the VM that the API server returned, so that deleting the VM deletes the secret. */
export function withOwner(
  { apiVersion, kind, metadata }: KubeObject,
  secret: NewSecret,
): NewSecret {
  const owner = { apiVersion, kind, name: metadata.name, uid: metadata.uid ?? "" };
  return { ...secret, metadata: { ...secret.metadata, ownerReferences: [owner] } };
}

/** Returns the objects in the order of a manifest: the VM after the objects that it refers to. */
export function listVmObjects({ claims, vm, secret }: VmObjects): readonly KubeObject[] {
  return [...claims, secret, vm];
}
