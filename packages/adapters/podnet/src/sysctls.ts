// SPDX-License-Identifier: Apache-2.0
// Sysctls below /proc/sys/net. Each process sees the sysctls of its network namespace.

export interface Sysctl {
  /** Path below /proc/sys/net, for example `ipv4/conf/eth0/forwarding`. */
  readonly path: string;
  readonly value: string;
}

export type SysctlValues = ReadonlyMap<string, string>;

export const SYSCTL_PATTERNS: readonly string[] = [
  "bridge/bridge-nf-call-*tables",
  "ipv4/conf/*/forwarding",
  "ipv4/conf/*/route_localnet",
  "ipv6/conf/*/accept_ra",
  "ipv6/conf/*/disable_ipv6",
  "ipv6/conf/all/forwarding",
];

const SYSCTL_ROOT = "/proc/sys/net";

/** Lists sysctl directories in order of preference. The host's directory is first, because the container's directory is read-only. */
export function listSysctlDirectories(hostProcess: number | undefined): readonly string[] {
  return hostProcess === undefined
    ? [SYSCTL_ROOT]
    : [`/proc/${String(hostProcess)}/root${SYSCTL_ROOT}`, SYSCTL_ROOT];
}

/** Script that reads lines `PATH VALUE`, and writes each value to its path below the first argument that is a directory. */
export const WRITE_SYSCTLS_SCRIPT =
  'for at; do cd "$at" 2>/dev/null && break; done && while read -r file value; do echo "$value" >"$file" || exit 1; done';

export function parseSysctls(text: string): SysctlValues {
  const lines = text.split("\n").map((line) => line.split(":"));
  return new Map(
    lines.flatMap(([path = "", value]) => (value === undefined ? [] : [[path, value]])),
  );
}

export function printSysctls(settings: readonly Sysctl[]): string {
  return settings.map(({ path, value }) => `${path} ${value}\n`).join("");
}
