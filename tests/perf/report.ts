// SPDX-License-Identifier: Apache-2.0
// Prints results side by side.
import type { FloorTimes } from "./floor.ts";
import type { HotplugTimes } from "./hotplug.ts";

function quantile(values: readonly number[], part: number): number {
  const sorted = values.toSorted((left, right) => left - right);
  return sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))] ?? NaN;
}

function row(label: string, values: readonly number[]): string {
  const cells = [
    quantile(values, 0),
    quantile(values, 0.5),
    quantile(values, 0.9),
    quantile(values, 1),
  ];
  return label.padEnd(44) + cells.map((cell) => cell.toFixed(1).padStart(9)).join("");
}

function head(title: string): string {
  return `\n${title.padEnd(44)}${["min", "median", "p90", "max"].map((name) => name.padStart(9)).join("")}`;
}

function print(...lines: readonly string[]): void {
  process.stdout.write(`${lines.join("\n")}\n`);
}

function median(values: readonly number[]): number {
  return quantile(values, 0.5);
}

/** Phases in order, and the component responsible before each. */
const MOMENTS: readonly (readonly [keyof HotplugTimes, string, string])[] = [
  ["vmi", "VMI has the NIC", "virt-api and admission, virt-controller"],
  ["annotation", "pod annotation changed", "virt-controller"],
  ["addBegan", "CNI ADD begins", "net-agent"],
  ["addEnded", "CNI ADD has ended and is in the journal", "plugin, net-agent"],
  ["networkStatus", "network-status written", "net-agent"],
  ["attached", "VMI attachment Attached", "virt-controller"],
  ["wiringBegan", "links begin", "virt-handler"],
  ["wiringEnded", "links are there", "kernel, virt-handler"],
  ["libvirtReturned", "libvirt's attach returned", "libvirt, virt-handler"],
  ["guestLine", "guest's line on its console", "guest"],
];

function columnOf(times: readonly HotplugTimes[], name: keyof HotplugTimes): readonly number[] {
  return times.map((each) => each[name]);
}

/**
 * From PUT to libvirt's return, minus libvirt and minus the manual time of plugin and kernel: the rest is ours, so that
 * no delay is hidden.
 */
function overheadOf(
  ours: readonly HotplugTimes[],
  floor: readonly FloorTimes[],
): readonly number[] {
  const byHand =
    median(floor.map(({ cniMs }) => cniMs)) + median(floor.map(({ linksMs }) => linksMs));
  return ours.map(({ libvirtReturned, libvirtMs }) => libvirtReturned - libvirtMs - byHand);
}

/** Tables in milliseconds: the product by phase and component, the floor, the two ratios. */
export function printComparison(
  title: string,
  ours: readonly HotplugTimes[],
  floor: readonly FloorTimes[],
): void {
  const columns = MOMENTS.map(([name]) => columnOf(ours, name));
  const hops = MOMENTS.map(([, , owner], index) => {
    const before = columns[index - 1];
    return row(
      owner,
      (columns[index] ?? []).map((time, round) => time - (before?.[round] ?? 0)),
    );
  });
  const overhead = overheadOf(ours, floor);
  const script = median(floor.map(({ scriptMs }) => scriptMs));
  const [line, lineByHand] = [ours, floor].map((times) =>
    median(times.map(({ guestLine }) => guestLine)),
  );
  print(
    `hotplug of one NIC, ${title}, ${String(ours.length)} rounds, milliseconds`,
    head("through the product, since the request"),
    row("PUT answered", columnOf(ours, "putReturned")),
    ...MOMENTS.map(([, label], index) => row(label, columns[index] ?? [])),
    row("status Ready", columnOf(ours, "ready")),
    head("the same as hops: whose work"),
    ...hops,
    row("libvirt's attach alone", columnOf(ours, "libvirtMs")),
    head("by hand, in a shell script"),
    ...FLOOR.map(([name, label]) =>
      row(
        label,
        floor.map((times) => times[name]),
      ),
    ),
    head("compared"),
    row("own overhead, PUT to libvirt's return", overhead),
    `own overhead by the script's whole time, medians: ${(median(overhead) / script).toFixed(2)}`,
    `ratio of medians, request to the guest's line: ${((line ?? NaN) / (lineByHand ?? NaN)).toFixed(2)}`,
  );
}

const FLOOR: readonly (readonly [keyof FloorTimes, string])[] = [
  ["cniMs", "CNI ADD"],
  ["linksMs", "links"],
  ["libvirtMs", "libvirt attach (virsh)"],
  ["scriptMs", "script ended"],
  ["guestLine", "guest's line on its console"],
];

export function printTable(
  title: string,
  rows: readonly { readonly label: string; readonly values: readonly number[] }[],
): void {
  print(head(title), ...rows.map(({ label, values }) => row(label, values)));
}
