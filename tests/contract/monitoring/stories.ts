// SPDX-License-Identifier: Apache-2.0
// The services' metrics before an alert fires and without a fault. One value each minute.

/** Series in promtool's notation: `1x9` is ten times 1, `0+6x9` grows by 6 each minute. */
export interface Story {
  readonly alert: string;
  readonly series: Readonly<Record<string, string>>;
  /** Evaluation time. */
  readonly after: string;
  readonly fires: boolean;
}

function up(container: string, pod = "a"): string {
  return `up{job="metrics",container="${container}",pod="${pod}"}`;
}

function plugs(le: string): string {
  return `patchbay_plug_seconds_bucket{type="Plug",pod="a",le="${le}"}`;
}

const LEADING = "kubevirt_virt_controller_leading_status";
const PENDING = 'patchbay_oldest_pending_iface_seconds{pod="virt-handler-1"}';
const FAILURES = 'patchbay_iface_failures_total{reason="NetworkNotFound",pod="virt-handler-1"}';
const DECISIONS = "patchbay_admission_decisions_total";
const RUNNING =
  'kubevirt_workqueue_longest_running_processor_seconds{name="virt-handler-vmi",pod="a"}';
const DEPTH = 'kubevirt_workqueue_depth{name="virt-handler-vmi",pod="a"}';
const PASSES = "patchbay_reconcile_total";
const SIZE = "patchbay_machine_disk_size_bytes";
const FREE = "patchbay_machine_disk_free_bytes";
const READ_ONLY = "patchbay_machine_read_only_volumes";
const BACKUP = "patchbay_machine_backup_timestamp_seconds";

function service(name: string): string {
  return `patchbay_service_up{service="${name}",instance="a"}`;
}

/** At least two of each alert. */
export const STORIES: readonly Story[] = [
  {
    alert: "PatchbayApiDown",
    series: {
      [up("virt-api")]: "1 0x9",
      [up("virt-api", "b")]: "1 0x9",
      [up("virt-handler", "c")]: "1x9",
    },
    after: "8m",
    fires: true,
  },
  { alert: "PatchbayApiDown", series: { [up("virt-handler")]: "1x9" }, after: "8m", fires: true },
  { alert: "PatchbayApiDown", series: { [up("net-agent")]: "1x9" }, after: "8m", fires: false },
  {
    alert: "PatchbayApiDown",
    series: {
      [up("virt-api")]: "0x9",
      [up("virt-api", "b")]: "1x9",
      [up("virt-handler", "c")]: "1x9",
    },
    after: "8m",
    fires: false,
  },
  {
    alert: "PatchbayNoLeader",
    series: {
      [`${LEADING}{pod="a"}`]: "0x9",
      [`${LEADING}{pod="b"}`]: "0x9",
      [up("virt-handler")]: "1x9",
    },
    after: "4m",
    fires: true,
  },
  { alert: "PatchbayNoLeader", series: { [up("virt-handler")]: "1x9" }, after: "4m", fires: true },
  { alert: "PatchbayNoLeader", series: { [up("net-agent")]: "1x9" }, after: "4m", fires: false },
  {
    alert: "PatchbayNoLeader",
    series: {
      [`${LEADING}{pod="a"}`]: "1 0x9",
      [`${LEADING}{pod="b"}`]: "0 1x9",
      [up("virt-handler")]: "1x9",
    },
    after: "4m",
    fires: false,
  },
  {
    alert: "PatchbayTwoLeaders",
    series: { [`${LEADING}{pod="a"}`]: "1x9", [`${LEADING}{pod="b"}`]: "1x9" },
    after: "4m",
    fires: true,
  },
  {
    alert: "PatchbayTwoLeaders",
    series: { [`${LEADING}{pod="a"}`]: "1x9", [`${LEADING}{pod="b"}`]: "0x9" },
    after: "4m",
    fires: false,
  },
  {
    alert: "PatchbayAgentDown",
    series: { [up("virt-handler")]: "0x9", [up("virt-handler", "b")]: "1x9" },
    after: "8m",
    fires: true,
  },
  {
    alert: "PatchbayAgentDown",
    series: { [up("net-agent")]: "1 0 0 1x9", [up("virt-api")]: "0x9" },
    after: "8m",
    fires: false,
  },
  {
    alert: "PatchbayAdmissionFails",
    series: { [`${DECISIONS}{decision="failed",webhook="validate"}`]: "0+3x15" },
    after: "12m",
    fires: true,
  },
  {
    alert: "PatchbayAdmissionFails",
    series: {
      [`${DECISIONS}{decision="failed",webhook="validate"}`]: "7x15",
      [`${DECISIONS}{decision="denied",webhook="validate"}`]: "0+3x15",
    },
    after: "12m",
    fires: false,
  },
  {
    alert: "PatchbayInterfacePending",
    series: { [PENDING]: "0+60x15" },
    after: "9m",
    fires: true,
  },
  {
    alert: "PatchbayInterfacePending",
    series: { [PENDING]: "0 60 120 0x15" },
    after: "9m",
    fires: false,
  },
  {
    alert: "PatchbayInterfacesFail",
    series: { [FAILURES]: "0+3x30" },
    after: "25m",
    fires: true,
  },
  {
    alert: "PatchbayInterfacesFail",
    series: { [FAILURES]: "0 3 6 6x30" },
    after: "25m",
    fires: false,
  },
  {
    alert: "PatchbayPlugsSlow",
    series: { [plugs("10")]: "0+1x60", [plugs("30")]: "0+6x60", [plugs("+Inf")]: "0+6x60" },
    after: "40m",
    fires: true,
  },
  {
    alert: "PatchbayPlugsSlow",
    series: { [plugs("1")]: "0+6x60", [plugs("30")]: "0+6x60", [plugs("+Inf")]: "0+6x60" },
    after: "40m",
    fires: false,
  },
  { alert: "PatchbayLoopStuck", series: { [RUNNING]: "0+60x30" }, after: "20m", fires: true },
  { alert: "PatchbayLoopStuck", series: { [RUNNING]: "0 60 0x30" }, after: "20m", fires: false },
  { alert: "PatchbayLoopBehind", series: { [DEPTH]: "500x30" }, after: "20m", fires: true },
  { alert: "PatchbayLoopBehind", series: { [DEPTH]: "500 9x30" }, after: "20m", fires: false },
  {
    alert: "PatchbayLoopFails",
    series: {
      [`${PASSES}{reconciler="vm",result="failed"}`]: "0+6x60",
      [`${PASSES}{reconciler="vm",result="done"}`]: "0+3x60",
    },
    after: "40m",
    fires: true,
  },
  {
    alert: "PatchbayLoopFails",
    series: {
      [`${PASSES}{reconciler="vm",result="failed"}`]: "0+1x60",
      [`${PASSES}{reconciler="vm",result="done"}`]: "0+30x60",
    },
    after: "40m",
    fires: false,
  },
  {
    alert: "PatchbayServiceDown",
    series: { [service("virt-api")]: "0x9", [service("net-agent")]: "1x9" },
    after: "8m",
    fires: true,
  },
  {
    alert: "PatchbayServiceDown",
    series: { [service("virt-api")]: "1 0 0 1x9", [service("net-agent")]: "1x9" },
    after: "8m",
    fires: false,
  },
  ...["PatchbayDiskLow", "PatchbayDiskFull"].flatMap((alert): readonly Story[] => [
    { alert, series: { [SIZE]: "1e12x9", [FREE]: "1e9x9" }, after: "8m", fires: true },
    { alert, series: { [SIZE]: "1e12x9", [FREE]: "4e9x9" }, after: "8m", fires: false },
    { alert, series: { [SIZE]: "1e10x9", [FREE]: "4e8x9" }, after: "8m", fires: true },
    { alert, series: { [SIZE]: "1e9x9", [FREE]: "5e8x9" }, after: "8m", fires: false },
  ]),
  {
    alert: "PatchbayDiskFull",
    series: { [SIZE]: "1e12x9", [FREE]: "1.5e9x9" },
    after: "8m",
    fires: false,
  },
  { alert: "PatchbayVolumeReadOnly", series: { [READ_ONLY]: "1x9" }, after: "8m", fires: true },
  { alert: "PatchbayVolumeReadOnly", series: { [READ_ONLY]: "0x9" }, after: "8m", fires: false },
  { alert: "PatchbayBackupOld", series: { [BACKUP]: "0x4000" }, after: "3000m", fires: true },
  { alert: "PatchbayBackupOld", series: { [BACKUP]: "0x4000" }, after: "2800m", fires: false },
];
