// SPDX-License-Identifier: Apache-2.0
// What virt-api watches: what requests are about, so that none of them has to be read first.
import {
  type IfaceStatus,
  type VirtualMachineInstance,
  type VmiStatus,
  KUBEVIRTS,
  NETWORK_ATTACHMENT_DEFINITIONS,
  isVmiFinal,
  startsByItself,
  VIRTUAL_MACHINE_INSTANCES,
  VIRTUAL_MACHINES,
  type KubeVirt,
  type NetworkAttachmentDefinition,
  type ObjectMeta,
  type VirtualMachine,
  type VmiSpec,
} from "@patchbay/api";
import {
  LIVE_MIGRATABLE,
  hasVm,
  launcherNamesOf,
  listMacs,
  sharedLinkOf,
  type MacOwner,
} from "@patchbay/core";
import type { DaemonContext } from "@patchbay/daemon";
import { createCache, parseKey, type Known, type StartableCache } from "@patchbay/kube";
import type { Cache, ObjectKey } from "@patchbay/core/ports";

function seenIface({ name, pciAddress }: IfaceStatus): IfaceStatus {
  return { ...(name !== undefined && { name }), ...(pciAddress !== undefined && { pciAddress }) };
}

/** Whose guest it is, and whether it can leave. */
function seenMigration({
  nodeName,
  evacuationNodeName,
  migrationState,
  conditions = [],
}: VmiStatus): VmiStatus {
  const told = conditions.filter(({ type }) => type === LIVE_MIGRATABLE);
  return {
    ...(nodeName !== undefined && { nodeName }),
    ...(evacuationNodeName !== undefined && { evacuationNodeName }),
    ...(migrationState !== undefined && { migrationState }),
    ...(told.length > 0 && { conditions: told }),
  };
}

/** The VMI, of its status only whether and where it runs, and which devices and ports it has. */
export function seenVmi({ status, ...vmi }: VirtualMachineInstance): VirtualMachineInstance {
  if (status === undefined) return vmi;
  const { phase, pciePorts, attachments, interfaces } = status;
  return {
    ...vmi,
    status: {
      ...(phase !== undefined && { phase }),
      ...seenMigration(status),
      ...(pciePorts !== undefined && { pciePorts }),
      ...(attachments !== undefined && { attachments }),
      ...(interfaces !== undefined && { interfaces: interfaces.map(seenIface) }),
    },
  };
}

/** The caches of this program. */
export interface Caches {
  readonly vms: StartableCache<VirtualMachine>;
  readonly vmis: StartableCache<VirtualMachineInstance>;
  readonly kubevirts: StartableCache<KubeVirt>;
  /** Whether a definition is there; a cluster need not serve the kind. */
  readonly nads: StartableCache<NetworkAttachmentDefinition>;
}

function launchersOf(vmi: VirtualMachineInstance): readonly string[] {
  return launcherNamesOf(vmi).map((name) => `${vmi.metadata.namespace ?? ""}/${name}`);
}

/** Index functions by which those are found that have a MAC, a launcher pod of a name, or a namespace. */
export const INDEXES = {
  vms: { mac: (vm: VirtualMachine) => listMacs(vm.spec.template.spec) },
  vmis: {
    mac: (vmi: VirtualMachineInstance) => (hasVm(vmi) ? [] : listMacs(vmi.spec)),
    launcher: launchersOf,
  },
  nads: {
    namespace: ({ metadata }: NetworkAttachmentDefinition) => [metadata.namespace ?? ""],
  },
} as const;

function withoutStatus({ apiVersion, kind, metadata, spec }: VirtualMachine): VirtualMachine {
  return { apiVersion, kind, metadata, spec };
}

/** A definition with its configuration only where that names a link that networks can share. */
export function seenNetwork({
  apiVersion,
  kind,
  metadata,
  spec,
}: NetworkAttachmentDefinition): NetworkAttachmentDefinition {
  const config = spec?.config;
  const isShared = config !== undefined && sharedLinkOf(config) !== undefined;
  return { apiVersion, kind, metadata, ...(isShared && { spec: { config } }) };
}

/** Makes them; they are empty until they are started. */
export function createCaches({ client, log }: DaemonContext): Caches {
  const logger = log;
  return {
    vms: createCache(client.reflect(VIRTUAL_MACHINES, { trim: withoutStatus }), {
      logger,
      indexes: INDEXES.vms,
    }),
    vmis: createCache(client.reflect(VIRTUAL_MACHINE_INSTANCES, { trim: seenVmi }), {
      logger,
      indexes: INDEXES.vmis,
    }),
    kubevirts: createCache(client.reflect(KUBEVIRTS), { logger }),
    nads: createCache(client.reflect(NETWORK_ATTACHMENT_DEFINITIONS, { trim: seenNetwork }), {
      logger,
      indexes: INDEXES.nads,
    }),
  };
}

/** The kinds that are looked up by name. */
export function knownKinds({ vms, vmis, nads }: Caches): readonly Known[] {
  return [
    { type: VIRTUAL_MACHINES, cache: vms },
    { type: VIRTUAL_MACHINE_INSTANCES, cache: vmis },
    { type: NETWORK_ATTACHMENT_DEFINITIONS, cache: nads },
  ];
}

function toOwner({ namespace = "", name }: ObjectMeta, spec: VmiSpec): MacOwner {
  return { namespace, name, spec };
}

/** Whether the VM of that name has a VMI whose guest has not ended. */
export function hasGuest(vmis: Cache<VirtualMachineInstance>, key: ObjectKey): boolean {
  const vmi = vmis.find(key);
  return vmi !== undefined && !isVmiFinal(vmi);
}

/** The link that a network (NAMESPACE/NAME) shares with others; without one its own name. */
export function findSegment(nads: Cache<NetworkAttachmentDefinition>, network: string): string {
  return sharedLinkOf(nads.find(parseKey(network))?.spec?.config) ?? network;
}

/** VMs, and VMIs without a VM, that have one of the MACs (lower case, with colons). */
export function listMacOwners(
  {
    vms,
    vmis,
  }: { readonly vms: Cache<VirtualMachine>; readonly vmis: Cache<VirtualMachineInstance> },
  macs: readonly string[],
): readonly MacOwner[] {
  return macs.flatMap((mac) => [
    ...vms.listBy("mac", mac).map((vm): MacOwner => {
      const owner = toOwner(vm.metadata, vm.spec.template.spec);
      const isHalted = !startsByItself(vm) && !hasGuest(vmis, owner);
      return isHalted ? { ...owner, isHalted } : owner;
    }),
    ...vmis.listBy("mac", mac).map((vmi) => toOwner(vmi.metadata, vmi.spec)),
  ]);
}

/** The VMI that has that launcher pod, as far as it is known. */
export function findByLauncher(
  vmis: Cache<VirtualMachineInstance>,
  { namespace = "", name }: ObjectKey,
): VirtualMachineInstance | undefined {
  return vmis.listBy("launcher", `${namespace}/${name}`)[0];
}
