// SPDX-License-Identifier: Apache-2.0
// Metrics about VMIs, with KubeVirt's names. Source: KubeVirt 1.9 metrics/virt-controller vmistats_collector.go.
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

/** Builds a sample without empty labels, as in KubeVirt. Prometheus treats empty and missing labels alike. */
function toSample(labels: Labels, value: number): Sample {
  const present = Object.entries(labels).filter(
    (entry): entry is [string, string] => entry[1] !== undefined && entry[1] !== "",
  );
  return { labels: Object.fromEntries(present), value };
}

function buildGauge(name: string, help: string, samples: readonly Sample[]): MetricFamily {
  return { name, help, type: "gauge", samples };
}

function placeLabels({ metadata, status }: VirtualMachineInstance): Labels {
  return { node: status?.nodeName, namespace: metadata.namespace, name: metadata.name };
}

/** Checks whether a drain can evict the guest. The guest blocks the drain if its strategy is LiveMigrate and it cannot migrate. */
function isEvictable(vmi: VirtualMachineInstance, clusterStrategy: EvictionStrategy): boolean {
  return findEvictionStrategy(vmi, clusterStrategy) !== "LiveMigrate" || isMigratable(vmi);
}

function findLauncherPod(vmi: VirtualMachineInstance): string | undefined {
  return vmi.status?.phase === "Running" ? ownerPodName(vmi) : undefined;
}

/** Annotations of VMIs by the label of the metric that contains them. Source: KubeVirt kubevirt_vmi_info. */
export const GUEST_LABEL_ANNOTATIONS = {
  os: "vm.kubevirt.io/os",
  workload: "vm.kubevirt.io/workload",
  flavor: "vm.kubevirt.io/flavor",
} as const;

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
      os: annotations[GUEST_LABEL_ANNOTATIONS.os],
      workload: annotations[GUEST_LABEL_ANNOTATIONS.workload],
      flavor: annotations[GUEST_LABEL_ANNOTATIONS.flavor],
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
  return buildGauge(
    "kubevirt_vmi_info",
    "1 for each VMI: where it is, its phase and its guest.",
    samples,
  );
}

function addressSamples(vmi: VirtualMachineInstance): readonly Sample[] {
  return (vmi.status?.interfaces ?? []).flatMap(({ name, interfaceName, ipAddress }) => {
    const hasAddress = ipAddress !== undefined && ipAddress !== "";
    const hasName = (name ?? "") !== "" || (interfaceName ?? "") !== "";
    if (!hasAddress && !hasName) return [];
    const type = hasAddress ? "ExternalInterface" : "SystemInterface";
    const nic = { vnic_name: name, interface_name: interfaceName, address: ipAddress, type };
    return [toSample({ ...placeLabels(vmi), ...nic }, 1)];
  });
}

export function vmiAddressFamily(vmis: readonly VirtualMachineInstance[]): MetricFamily {
  const help = "1 for each interface of a VMI: its first address.";
  return buildGauge("kubevirt_vmi_status_addresses", help, vmis.flatMap(addressSamples));
}

/** Migration phases that each metric counts. The key is the phase in the metric's name. Source: KubeVirt reportMigrationStats. */
const PHASES_BY_METRIC: Readonly<Record<string, readonly (string | undefined)[]>> = {
  pending: ["Pending"],
  scheduling: ["Scheduling"],
  unset: [undefined],
  running: ["Scheduled", "PreparingTarget", "TargetReady", "Running"],
};

function buildEndedFamily(
  migrations: readonly Migration[],
  phase: "Succeeded" | "Failed",
): MetricFamily {
  const phaseName = phase.toLowerCase();
  const samples = migrations
    .filter(({ status }) => status?.phase === phase)
    .map(({ metadata: { name, namespace }, spec }) =>
      toSample({ vmi: spec.vmiName, vmim: name, namespace }, 1),
    );
  return buildGauge(
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

function describeMigrationResult({
  completed,
  failed,
}: NonNullable<VmiStatus["migrationState"]>): string {
  if (completed !== true) return "";
  return failed === true ? "failed" : "succeeded";
}

function buildTimeFamily(
  vmis: readonly VirtualMachineInstance[],
  migrations: readonly Migration[],
  endpoint: "start" | "end",
): MetricFamily {
  const samples = vmis.flatMap((vmi) => {
    const { migrationState: state } = vmi.status ?? {};
    const seconds = toSeconds(endpoint === "start" ? state?.startTimestamp : state?.endTimestamp);
    if (state === undefined || seconds === undefined) return [];
    const migration = migrations.find(({ metadata }) => metadata.uid === state.migrationUid);
    const labels = { ...placeLabels(vmi), migration_name: migration?.metadata.name };
    return [
      toSample(
        endpoint === "start" ? labels : { ...labels, status: describeMigrationResult(state) },
        seconds,
      ),
    ];
  });
  const help = `When the last migration of a VMI ${endpoint}ed, in seconds since 1970.`;
  return buildGauge(`kubevirt_vmi_migration_${endpoint}_time_seconds`, help, samples);
}

export function migrationFamilies(
  migrations: readonly Migration[],
  vmis: readonly VirtualMachineInstance[],
): readonly MetricFamily[] {
  const counts = Object.entries(PHASES_BY_METRIC).map(([phaseName, phases]) => {
    const value = migrations.filter(({ status }) => phases.includes(status?.phase)).length;
    const name = `kubevirt_vmi_migrations_in_${phaseName}_phase`;
    return buildGauge(name, `Migrations in phase ${phaseName}.`, [{ labels: {}, value }]);
  });
  return [
    ...counts,
    buildEndedFamily(migrations, "Succeeded"),
    buildEndedFamily(migrations, "Failed"),
    buildTimeFamily(vmis, migrations, "start"),
    buildTimeFamily(vmis, migrations, "end"),
  ];
}

const UNSET_LABEL = "<none>";
const POD_NETWORK_LABEL = "pod networking";
const CORE_BINDINGS = ["bridge", "masquerade", "sriov", "passtBinding"] as const;

function buildBindingLabels(iface: Iface): Sample["labels"] {
  if (iface.binding !== undefined) {
    return { binding_type: "plugin", binding_name: iface.binding.name };
  }
  const coreBinding = CORE_BINDINGS.find((kind) => Object.hasOwn(iface, kind));
  return { binding_type: "core", binding_name: coreBinding ?? UNSET_LABEL };
}

function buildVnicSamples(
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
      ...buildBindingLabels(iface),
      network: network.multus?.networkName ?? network.resourceClaim?.claimName ?? POD_NETWORK_LABEL,
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
    samples: vmis.flatMap(({ metadata, spec }) => buildVnicSamples(metadata, spec)),
  };
}

export function vmVnicFamily(vms: readonly VirtualMachine[]): MetricFamily {
  return {
    name: "kubevirt_vm_vnic_info",
    help: "1 for each NIC in a VM's template: its name, network, model and binding.",
    type: "gauge",
    samples: vms.flatMap(({ metadata, spec }) => buildVnicSamples(metadata, spec.template.spec)),
  };
}

interface OutgoingMigration {
  readonly vmi: VirtualMachineInstance;
  readonly job: JobStats;
}

const MIGRATION_PREFIX = "kubevirt_vmi_migration_";

type ReadJob = (job: JobStats) => number | undefined;

const TOTAL_BYTES = "data_bytes_total";

const MIGRATION_FAMILIES: Readonly<Record<string, readonly [help: string, read: ReadJob]>> = {
  [TOTAL_BYTES]: ["All that is to be moved, in bytes.", ({ totalBytes }) => totalBytes],
  // Name of the metric before KubeVirt 1.9. Patchbay reports it too, because KubeVirt's recording rules still provide the old name.
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
    ({ dirtyPagesPerSecond: dirtyPages, pageBytes }) =>
      dirtyPages === undefined || pageBytes === undefined ? undefined : dirtyPages * pageBytes,
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
