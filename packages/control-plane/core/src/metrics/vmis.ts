// SPDX-License-Identifier: Apache-2.0
// Metrics about VMIs, with KubeVirt's names. Source: KubeVirt 1.9 metrics/virt-controller vmistats_collector.go,
// migrationstats_collector.go.
import type {
  EvictionStrategy,
  VirtualMachineInstance,
  VirtualMachineInstanceMigration,
  VmiStatus,
  Iface,
  VirtualMachine,
  VmiSpec,
} from "@patchbay/api";
import { ownerPodName } from "../migration/owner.ts";
import { findEvictionStrategy, isMigratable } from "../migration/requests.ts";
import type { MetricFamily, Sample } from "./family.ts";
import { findByName, ifacesOf, networksOf } from "../nics/nics.ts";
import type { JobStats } from "../interfaces/hypervisor.ts";

type Labels = Readonly<Record<string, string | undefined>>;
type Migration = VirtualMachineInstanceMigration;

/** Builds a sample. Omits empty labels like KubeVirt; Prometheus treats empty and missing labels alike. */
function toSample(labels: Labels, value: number): Sample {
  const present = Object.entries(labels).filter(
    (entry): entry is [string, string] => entry[1] !== undefined && entry[1] !== "",
  );
  return { labels: Object.fromEntries(present), value };
}

function gauge(name: string, help: string, samples: readonly Sample[]): MetricFamily {
  return { name, help, type: "gauge", samples };
}

function placeLabels({ metadata, status }: VirtualMachineInstance): Labels {
  return { node: status?.nodeName, namespace: metadata.namespace, name: metadata.name };
}

/** Returns whether a drain can evict the guest. A guest that must migrate, but cannot, blocks the drain. */
function isEvictable(vmi: VirtualMachineInstance, clusterStrategy: EvictionStrategy): boolean {
  return findEvictionStrategy(vmi, clusterStrategy) !== "LiveMigrate" || isMigratable(vmi);
}

function findLauncherPod(vmi: VirtualMachineInstance): string | undefined {
  return vmi.status?.phase === "Running" ? ownerPodName(vmi) : undefined;
}

export function vmiInfoFamily(
  vmis: readonly VirtualMachineInstance[],
  clusterStrategy: EvictionStrategy,
): MetricFamily {
  const samples = vmis.map((vmi) => {
    const { metadata, status } = vmi;
    const { annotations = {} } = metadata;
    const { name, versionId, kernelRelease, machine } = status?.guestOSInfo ?? {};
    const labels = {
      ...placeLabels(vmi),
      phase: (status?.phase ?? "").toLowerCase(),
      os: annotations["vm.kubevirt.io/os"],
      workload: annotations["vm.kubevirt.io/workload"],
      flavor: annotations["vm.kubevirt.io/flavor"],
      guest_os_kernel_release: kernelRelease,
      guest_os_arch: machine,
      guest_os_name: name,
      guest_os_version_id: versionId,
      evictable: String(isEvictable(vmi, clusterStrategy)),
      outdated: "false",
      vmi_pod: findLauncherPod(vmi),
    };
    return toSample(labels, 1);
  });
  return gauge(
    "kubevirt_vmi_info",
    "1 for each VMI: where it is, its phase and its guest.",
    samples,
  );
}

function addressSamples(vmi: VirtualMachineInstance): readonly Sample[] {
  return (vmi.status?.interfaces ?? []).flatMap(({ name, interfaceName, ipAddress }) => {
    const hasAddress = ipAddress !== undefined && ipAddress !== "";
    const isNamed = (name ?? "") !== "" || (interfaceName ?? "") !== "";
    if (!hasAddress && !isNamed) return [];
    const type = hasAddress ? "ExternalInterface" : "SystemInterface";
    const nic = { vnic_name: name, interface_name: interfaceName, address: ipAddress, type };
    return [toSample({ ...placeLabels(vmi), ...nic }, 1)];
  });
}

export function vmiAddressFamily(vmis: readonly VirtualMachineInstance[]): MetricFamily {
  const help = "1 for each interface of a VMI: its first address.";
  return gauge("kubevirt_vmi_status_addresses", help, vmis.flatMap(addressSamples));
}

/** Migration phases by the phase in a metric's name. Source: KubeVirt reportMigrationStats. */
const PHASES_BY_METRIC: Readonly<Record<string, readonly (string | undefined)[]>> = {
  pending: ["Pending"],
  scheduling: ["Scheduling"],
  unset: [undefined],
  running: ["Scheduled", "PreparingTarget", "TargetReady", "Running"],
};

function endedFamily(
  migrations: readonly Migration[],
  phase: "Succeeded" | "Failed",
): MetricFamily {
  const phaseName = phase.toLowerCase();
  const samples = migrations
    .filter(({ status }) => status?.phase === phase)
    .map(({ metadata: { name, namespace }, spec }) =>
      toSample({ vmi: spec.vmiName, vmim: name, namespace }, 1),
    );
  return gauge(
    `kubevirt_vmi_migration_${phaseName}`,
    `1 for each migration that ${phaseName}.`,
    samples,
  );
}

function toSeconds(time: string | undefined): number | undefined {
  // oxlint-disable-next-line no-restricted-globals -- converts given times, reads no clock
  const ms = Date.parse(time ?? "");
  return Number.isNaN(ms) ? undefined : Math.floor(ms / 1000);
}

function migrationResult({ completed, failed }: NonNullable<VmiStatus["migrationState"]>): string {
  if (completed !== true) return "";
  return failed === true ? "failed" : "succeeded";
}

function timeFamily(
  vmis: readonly VirtualMachineInstance[],
  migrations: readonly Migration[],
  which: "start" | "end",
): MetricFamily {
  const samples = vmis.flatMap((vmi) => {
    const { migrationState: state } = vmi.status ?? {};
    const seconds = toSeconds(which === "start" ? state?.startTimestamp : state?.endTimestamp);
    if (state === undefined || seconds === undefined) return [];
    const migration = migrations.find(({ metadata }) => metadata.uid === state.migrationUid);
    const labels = { ...placeLabels(vmi), migration_name: migration?.metadata.name };
    return [
      toSample(which === "start" ? labels : { ...labels, status: migrationResult(state) }, seconds),
    ];
  });
  const help = `When the last migration of a VMI ${which}ed, in seconds since 1970.`;
  return gauge(`kubevirt_vmi_migration_${which}_time_seconds`, help, samples);
}

export function migrationFamilies(
  migrations: readonly Migration[],
  vmis: readonly VirtualMachineInstance[],
): readonly MetricFamily[] {
  const counts = Object.entries(PHASES_BY_METRIC).map(([phaseName, phases]) => {
    const value = migrations.filter(({ status }) => phases.includes(status?.phase)).length;
    const name = `kubevirt_vmi_migrations_in_${phaseName}_phase`;
    return gauge(name, `Migrations in phase ${phaseName}.`, [{ labels: {}, value }]);
  });
  return [
    ...counts,
    endedFamily(migrations, "Succeeded"),
    endedFamily(migrations, "Failed"),
    timeFamily(vmis, migrations, "start"),
    timeFamily(vmis, migrations, "end"),
  ];
}

const UNSET_LABEL = "<none>";
const POD_NETWORK_LABEL = "pod networking";
const CORE_BINDINGS = ["bridge", "masquerade", "sriov", "passtBinding"] as const;

function bindingLabels(iface: Iface): Sample["labels"] {
  if (iface.binding !== undefined) {
    return { binding_type: "plugin", binding_name: iface.binding.name };
  }
  const core = CORE_BINDINGS.find((kind) => Object.hasOwn(iface, kind));
  return { binding_type: "core", binding_name: core ?? UNSET_LABEL };
}

function vnicSamples(
  { namespace = "", name }: { readonly namespace?: string; readonly name: string },
  spec: VmiSpec,
): readonly Sample[] {
  return ifacesOf(spec).flatMap((iface): readonly Sample[] => {
    const network = findByName(networksOf(spec), iface.name);
    if (network === undefined) return [];
    const labels = {
      name,
      namespace,
      vnic_name: iface.name,
      ...bindingLabels(iface),
      network: network.multus?.networkName ?? POD_NETWORK_LABEL,
      model: iface.model ?? UNSET_LABEL,
    };
    return [{ labels, value: 1 }];
  });
}

export function vmiVnicFamily(vmis: readonly VirtualMachineInstance[]): MetricFamily {
  return {
    name: "kubevirt_vmi_vnic_info",
    help: "1 for each NIC of a VMI: its name, network, model and binding.",
    type: "gauge",
    samples: vmis.flatMap(({ metadata, spec }) => vnicSamples(metadata, spec)),
  };
}

export function vmVnicFamily(vms: readonly VirtualMachine[]): MetricFamily {
  return {
    name: "kubevirt_vm_vnic_info",
    help: "1 for each NIC in a VM's template: its name, network, model and binding.",
    type: "gauge",
    samples: vms.flatMap(({ metadata, spec }) => vnicSamples(metadata, spec.template.spec)),
  };
}

interface OutgoingMigration {
  readonly vmi: VirtualMachineInstance;
  readonly job: JobStats;
}

const MIGRATION_PREFIX = "kubevirt_vmi_migration_";

type ReadJob = (job: JobStats) => number | undefined;

/** Suffix of a metric that KubeVirt 1.9 exports as a counter. */
const TOTAL_BYTES = "data_bytes_total";

const MIGRATION_FAMILIES: Readonly<Record<string, readonly [help: string, read: ReadJob]>> = {
  [TOTAL_BYTES]: ["All that is to be moved, in bytes.", ({ totalBytes }) => totalBytes],
  // The metric's name before KubeVirt 1.9, which KubeVirt's recording rules still provide.
  data_total_bytes: [
    "Deprecated: kubevirt_vmi_migration_data_bytes_total.",
    ({ totalBytes }) => totalBytes,
  ],
  data_processed_bytes: ["What has been moved, in bytes.", ({ processedBytes }) => processedBytes],
  data_remaining_bytes: [
    "What is still to be moved, in bytes.",
    ({ remainingBytes }) => remainingBytes,
  ],
  dirty_memory_rate_bytes: [
    "How fast the guest writes its memory, in bytes per second.",
    ({ dirtyPagesPerSecond: pages, pageBytes }) =>
      pages === undefined || pageBytes === undefined ? undefined : pages * pageBytes,
  ],
  memory_transfer_rate_bytes: [
    "How fast the guest's memory is moved, in bytes per second.",
    ({ memoryBytesPerSecond }) => memoryBytesPerSecond,
  ],
};

export function outgoingMigrationFamilies(
  migrations: readonly OutgoingMigration[],
  node: string,
): readonly MetricFamily[] {
  return Object.entries(MIGRATION_FAMILIES).map(([suffix, [help, read]]) => ({
    name: `${MIGRATION_PREFIX}${suffix}`,
    help,
    type: suffix === TOTAL_BYTES ? "counter" : "gauge",
    samples: migrations.flatMap(({ vmi, job }): readonly Sample[] => {
      const { namespace = "", name } = vmi.metadata;
      const value = read(job);
      return value === undefined ? [] : [{ labels: { node, namespace, name }, value }];
    }),
  }));
}
