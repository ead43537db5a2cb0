// SPDX-License-Identifier: Apache-2.0
// Prints what was measured, side by side.
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

/** Tables in milliseconds: the product by phase, the floor, the ratio and the product's own overhead. */
export function printComparison(ours: readonly HotplugTimes[], floor: readonly FloorTimes[]): void {
  print(
    `hotplug of one NIC, ${String(ours.length)} rounds, milliseconds`,
    head("through the product, since the request"),
    row(
      "PUT answered",
      ours.map(({ putReturned }) => putReturned),
    ),
    row(
      "pod annotation changed",
      ours.map(({ annotation }) => annotation),
    ),
    row(
      "network-status written (CNI done)",
      ours.map(({ networkStatus }) => networkStatus),
    ),
    row(
      "VMI attachment Attached",
      ours.map(({ attached }) => attached),
    ),
    row(
      "libvirt's attach returned",
      ours.map(({ libvirtReturned }) => libvirtReturned),
    ),
    row(
      "status Ready",
      ours.map(({ ready }) => ready),
    ),
    row(
      "guest's line on its console",
      ours.map(({ guestLine }) => guestLine),
    ),
    head("of which outside work"),
    row(
      "CNI ADD",
      ours.map(({ cniMs }) => cniMs),
    ),
    row(
      "links",
      ours.map(({ linksMs }) => linksMs),
    ),
    row(
      "libvirt attach",
      ours.map(({ libvirtMs }) => libvirtMs),
    ),
    head("by hand, in a shell script"),
    row(
      "CNI ADD",
      floor.map(({ cniMs }) => cniMs),
    ),
    row(
      "links",
      floor.map(({ linksMs }) => linksMs),
    ),
    row(
      "libvirt attach (virsh)",
      floor.map(({ libvirtMs }) => libvirtMs),
    ),
    row(
      "script ended",
      floor.map(({ scriptMs }) => scriptMs),
    ),
    row(
      "guest's line on its console",
      floor.map(({ guestLine }) => guestLine),
    ),
    head("compared"),
    row(
      "own overhead: PUT to libvirt's return less work",
      ours.map((times) => times.libvirtReturned - times.cniMs - times.linksMs - times.libvirtMs),
    ),
  );
  const ratio =
    quantile(
      ours.map(({ guestLine }) => guestLine),
      0.5,
    ) /
    quantile(
      floor.map(({ guestLine }) => guestLine),
      0.5,
    );
  print(`ratio of medians, request to the guest's line: ${ratio.toFixed(2)}`);
}

/** A table in milliseconds. */
export function printTable(
  title: string,
  rows: readonly { readonly label: string; readonly values: readonly number[] }[],
): void {
  print(head(title), ...rows.map(({ label, values }) => row(label, values)));
}
