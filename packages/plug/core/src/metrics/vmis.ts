// SPDX-License-Identifier: Apache-2.0
// What VMIs are, which addresses they have, and how their migrations went, by KubeVirt's names. Source: KubeVirt 1.9
// metrics/virt-controller vmistats_collector.go, migrationstats_collector.go.
import type {
  EvictionStrategy,
  VirtualMachineInstance,
  VirtualMachineInstanceMigration,
  VmiStatus,
} from "@patchbay/api";
import { ownerPodName } from "../migration/owner.ts";
import { evictionStrategyIn, isMigratable } from "../migration/requests.ts";
import type { MetricFamily, Sample } from "./family.ts";

type Labels = Readonly<Record<string, string | undefined>>;
type Migration = VirtualMachineInstanceMigration;

/** Labels without a value are left out, as KubeVirt does; Prometheus takes both for the same. */
function sampleOf(labels: Labels, value: number): Sample {
  const given = Object.entries(labels).filter(
    (entry): entry is [string, string] => entry[1] !== undefined && entry[1] !== "",
  );
  return { labels: Object.fromEntries(given), value };
}

function gauge(name: string, help: string, samples: readonly Sample[]): MetricFamily {
  return { name, help, type: "gauge", samples };
}

function placeOf({ metadata, status }: VirtualMachineInstance): Labels {
  return { node: status?.nodeName, namespace: metadata.namespace, name: metadata.name };
}

/** Whether a drain moves or ends the guest. A guest that must be moved, and cannot be, keeps its node from being drained. */
function isEvictable(vmi: VirtualMachineInstance, ofCluster: EvictionStrategy): boolean {
  return evictionStrategyIn(vmi, ofCluster) !== "LiveMigrate" || isMigratable(vmi);
}

/** The launcher pod that runs the guest. */
function podOf(vmi: VirtualMachineInstance): string | undefined {
  return vmi.status?.phase === "Running" ? ownerPodName(vmi) : undefined;
}

/** One sample for each VMI. */
export function vmiInfoFamily(
  vmis: readonly VirtualMachineInstance[],
  ofCluster: EvictionStrategy,
): MetricFamily {
  const samples = vmis.map((vmi) => {
    const { metadata, status } = vmi;
    const { annotations = {} } = metadata;
    const { name, versionId, kernelRelease, machine } = status?.guestOSInfo ?? {};
    const labels = {
      ...placeOf(vmi),
      phase: (status?.phase ?? "").toLowerCase(),
      os: annotations["vm.kubevirt.io/os"],
      workload: annotations["vm.kubevirt.io/workload"],
      flavor: annotations["vm.kubevirt.io/flavor"],
      guest_os_kernel_release: kernelRelease,
      guest_os_arch: machine,
      guest_os_name: name,
      guest_os_version_id: versionId,
      evictable: String(isEvictable(vmi, ofCluster)),
      outdated: "false",
      vmi_pod: podOf(vmi),
    };
    return sampleOf(labels, 1);
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
    return [sampleOf({ ...placeOf(vmi), ...nic }, 1)];
  });
}

/** One sample for each interface in the status. */
export function vmiAddressFamily(vmis: readonly VirtualMachineInstance[]): MetricFamily {
  const help = "1 for each interface of a VMI: its first address.";
  return gauge("kubevirt_vmi_status_addresses", help, vmis.flatMap(addressSamples));
}

/** The phases of each count. Source: KubeVirt reportMigrationStats. */
const COUNTED: Readonly<Record<string, readonly (string | undefined)[]>> = {
  pending: ["Pending"],
  scheduling: ["Scheduling"],
  unset: [undefined],
  running: ["Scheduled", "PreparingTarget", "TargetReady", "Running"],
};

function endedFamily(
  migrations: readonly Migration[],
  phase: "Succeeded" | "Failed",
): MetricFamily {
  const word = phase.toLowerCase();
  const samples = migrations
    .filter(({ status }) => status?.phase === phase)
    .map(({ metadata: { name, namespace }, spec }) =>
      sampleOf({ vmi: spec.vmiName, vmim: name, namespace }, 1),
    );
  return gauge(`kubevirt_vmi_migration_${word}`, `1 for each migration that ${word}.`, samples);
}

function seconds(time: string | undefined): number | undefined {
  // oxlint-disable-next-line no-restricted-globals -- converts given times, reads no clock
  const ms = Date.parse(time ?? "");
  return Number.isNaN(ms) ? undefined : Math.floor(ms / 1000);
}

function resultOf({ completed, failed }: NonNullable<VmiStatus["migrationState"]>): string {
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
    const at = seconds(which === "start" ? state?.startTimestamp : state?.endTimestamp);
    if (state === undefined || at === undefined) return [];
    const migration = migrations.find(({ metadata }) => metadata.uid === state.migrationUid);
    const labels = { ...placeOf(vmi), migration_name: migration?.metadata.name };
    return [sampleOf(which === "start" ? labels : { ...labels, status: resultOf(state) }, at)];
  });
  const help = `When the last migration of a VMI ${which}ed, in seconds since 1970.`;
  return gauge(`kubevirt_vmi_migration_${which}_time_seconds`, help, samples);
}

/** How many migrations are in which phase, which ones have ended, and when the last one of each VMI did. */
export function migrationFamilies(
  migrations: readonly Migration[],
  vmis: readonly VirtualMachineInstance[],
): readonly MetricFamily[] {
  const counts = Object.entries(COUNTED).map(([word, phases]) => {
    const value = migrations.filter(({ status }) => phases.includes(status?.phase)).length;
    const name = `kubevirt_vmi_migrations_in_${word}_phase`;
    return gauge(name, `Migrations in phase ${word}.`, [{ labels: {}, value }]);
  });
  return [
    ...counts,
    endedFamily(migrations, "Succeeded"),
    endedFamily(migrations, "Failed"),
    timeFamily(vmis, migrations, "start"),
    timeFamily(vmis, migrations, "end"),
  ];
}
