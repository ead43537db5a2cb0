// SPDX-License-Identifier: Apache-2.0
import {
  type IfaceStatus,
  type VirtualMachineInstance,
  type VmiStatus,
  KUBEVIRTS,
  NETWORK_ATTACHMENT_DEFINITIONS,
  isVmiFinal,
  startsAutomatically,
  VIRTUAL_MACHINE_INSTANCES,
  VIRTUAL_MACHINES,
  type KubeVirt,
  type NetworkAttachmentDefinition,
  type VirtualMachine,
  type VmiSpec,
} from "@patchbay/api";
import type { ObjectMeta } from "@patchbay/api/kubernetes";
import { LIVE_MIGRATABLE } from "@patchbay/core/status";
import { hasVm, trimAnnotations } from "@patchbay/core/vm";
import { listLauncherNames } from "@patchbay/core/migration";
import { listMacs, findSharedLink, withRecordedMacs, type MacOwner } from "@patchbay/core/nics";
import type { DaemonContext } from "@patchbay/daemon";
import { createCache, parseKey, type CachedKind, type StartableCache } from "@patchbay/kube";
import type { Cache, ObjectKey } from "@patchbay/core/interfaces";

function trimIface({ name, pciAddress }: IfaceStatus): IfaceStatus {
  return { ...(name !== undefined && { name }), ...(pciAddress !== undefined && { pciAddress }) };
}

function trimMigration({
  nodeName,
  evacuationNodeName,
  migrationState,
  conditions = [],
}: VmiStatus): VmiStatus {
  const migratableConditions = conditions.filter(({ type }) => type === LIVE_MIGRATABLE);
  return {
    ...(nodeName !== undefined && { nodeName }),
    ...(evacuationNodeName !== undefined && { evacuationNodeName }),
    ...(migrationState !== undefined && { migrationState }),
    ...(migratableConditions.length > 0 && { conditions: migratableConditions }),
  };
}

/** Trims annotations and status to those that virt-api reads for subresource calls and admission. */
export function trimVmi({ status, ...whole }: VirtualMachineInstance): VirtualMachineInstance {
  const vmi = { ...whole, metadata: trimAnnotations(whole.metadata) };
  if (status === undefined) return vmi;
  const { phase, pciePorts, attachments, interfaces } = status;
  return {
    ...vmi,
    status: {
      ...(phase !== undefined && { phase }),
      ...trimMigration(status),
      ...(pciePorts !== undefined && { pciePorts }),
      ...(attachments !== undefined && { attachments }),
      ...(interfaces !== undefined && { interfaces: interfaces.map(trimIface) }),
    },
  };
}

export interface Caches {
  readonly vms: StartableCache<VirtualMachine>;
  readonly vmis: StartableCache<VirtualMachineInstance>;
  readonly kubevirts: StartableCache<KubeVirt>;
  /** Cache of NetworkAttachmentDefinitions, a kind that clusters without Multus lack. */
  readonly nads: StartableCache<NetworkAttachmentDefinition>;
}

function listLauncherKeys(vmi: VirtualMachineInstance): readonly string[] {
  return listLauncherNames(vmi).map((name) => `${vmi.metadata.namespace ?? ""}/${name}`);
}

export const INDEXES = {
  vms: { mac: (vm: VirtualMachine) => listMacs(withRecordedMacs(vm)) },
  vmis: {
    mac: (vmi: VirtualMachineInstance) => (hasVm(vmi) ? [] : listMacs(vmi.spec)),
    launcher: listLauncherKeys,
  },
  nads: {
    namespace: ({ metadata }: NetworkAttachmentDefinition) => [metadata.namespace ?? ""],
  },
} as const;

/** Trims the status to the MACs that networks assigned, and drops annotations that virt-api does not read. */
export function trimVm({
  apiVersion,
  kind,
  metadata,
  spec,
  status,
}: VirtualMachine): VirtualMachine {
  const macAddresses = status?.macAddresses;
  const { template } = spec;
  const templateMetadata = template.metadata && { metadata: trimAnnotations(template.metadata) };
  return {
    apiVersion,
    kind,
    metadata: trimAnnotations(metadata),
    spec: { ...spec, template: { ...template, ...templateMetadata } },
    ...(macAddresses && { status: { macAddresses } }),
  };
}

/** Removes the CNI configuration to save memory. A configuration with a link that networks can share is kept for {@link findSegment}. */
export function trimNetwork({
  apiVersion,
  kind,
  metadata,
  spec,
}: NetworkAttachmentDefinition): NetworkAttachmentDefinition {
  const config = spec?.config;
  const isShared = config !== undefined && findSharedLink(config) !== undefined;
  return {
    apiVersion,
    kind,
    metadata: trimAnnotations(metadata),
    ...(isShared && { spec: { config } }),
  };
}

export function createCaches({ client, log }: DaemonContext): Caches {
  const logger = log;
  return {
    vms: createCache(client.reflect(VIRTUAL_MACHINES, { trim: trimVm }), {
      logger,
      indexes: INDEXES.vms,
    }),
    vmis: createCache(client.reflect(VIRTUAL_MACHINE_INSTANCES, { trim: trimVmi }), {
      logger,
      indexes: INDEXES.vmis,
    }),
    kubevirts: createCache(client.reflect(KUBEVIRTS), { logger }),
    nads: createCache(client.reflect(NETWORK_ATTACHMENT_DEFINITIONS, { trim: trimNetwork }), {
      logger,
      indexes: INDEXES.nads,
    }),
  };
}

export function listCachedKinds({ vms, vmis, nads }: Caches): readonly CachedKind[] {
  return [
    { type: VIRTUAL_MACHINES, cache: vms },
    { type: VIRTUAL_MACHINE_INSTANCES, cache: vmis },
    { type: NETWORK_ATTACHMENT_DEFINITIONS, cache: nads },
  ];
}

function toOwner({ namespace = "", name }: ObjectMeta, spec: VmiSpec): MacOwner {
  return { namespace, name, spec };
}

export function hasGuest(vmis: Cache<VirtualMachineInstance>, key: ObjectKey): boolean {
  const vmi = vmis.find(key);
  return vmi !== undefined && !isVmiFinal(vmi);
}

/** Returns the network's L2 segment: the shared link in its configuration, or the network's NAMESPACE/NAME if there is no such link. */
export function findSegment(nads: Cache<NetworkAttachmentDefinition>, network: string): string {
  return findSharedLink(nads.find(parseKey(network))?.spec?.config) ?? network;
}

/** Lists the VMs, and VMIs without a VM, that have one of the MACs. `macs` must be in lower case with colons. */
export function listMacOwners(
  {
    vms,
    vmis,
  }: { readonly vms: Cache<VirtualMachine>; readonly vmis: Cache<VirtualMachineInstance> },
  macs: readonly string[],
): readonly MacOwner[] {
  return macs.flatMap((mac) => [
    ...vms.listBy("mac", mac).map((vm): MacOwner => {
      const owner = toOwner(vm.metadata, withRecordedMacs(vm));
      const isHalted = !startsAutomatically(vm) && !hasGuest(vmis, owner);
      return isHalted ? { ...owner, isHalted } : owner;
    }),
    ...vmis.listBy("mac", mac).map((vmi) => toOwner(vmi.metadata, vmi.spec)),
  ]);
}

export function findByLauncher(
  vmis: Cache<VirtualMachineInstance>,
  { namespace = "", name }: ObjectKey,
): VirtualMachineInstance | undefined {
  return vmis.listBy("launcher", `${namespace}/${name}`)[0];
}
