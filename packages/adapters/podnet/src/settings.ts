// SPDX-License-Identifier: Apache-2.0
// Settings of the network below /proc/sys/net, which shows to each process those of its own namespace.

/** A setting and its value. */
export interface Setting {
  /** Below /proc/sys/net, for example `ipv4/conf/eth0/forwarding`. */
  readonly path: string;
  readonly value: string;
}

/** Values by path. */
export type SeenSettings = ReadonlyMap<string, string>;

/** What a look reads, as patterns of paths. */
export const SETTING_PATTERNS: readonly string[] = [
  "bridge/bridge-nf-call-*tables",
  "ipv4/conf/*/forwarding",
  "ipv4/conf/*/route_localnet",
  "ipv6/conf/*/accept_ra",
  "ipv6/conf/*/disable_ipv6",
  "ipv6/conf/all/forwarding",
];

/** Where settings are, as every process sees its own. */
const OWN = "/proc/sys/net";

/**
 * Where they can be written: a container's own are read-only, those of a process of the host are not. Whose settings are
 * written is decided by the namespace that the writer is in, not by the mount.
 */
export function placesOfSettings(hostProcess: number | undefined): readonly string[] {
  return hostProcess === undefined ? [OWN] : [`/proc/${String(hostProcess)}/root${OWN}`, OWN];
}

/**
 * Shell that reads lines of PATH VALUE, and writes them below the first of its arguments that is there; it stops at the
 * first that fails.
 */
export const WRITE_SETTINGS =
  'for at; do cd "$at" 2>/dev/null && break; done && while read -r file value; do echo "$value" >"$file" || exit 1; done';

/** Reads lines of PATH:VALUE. */
export function parseSettings(text: string): SeenSettings {
  const lines = text.split("\n").map((line) => line.split(":"));
  return new Map(
    lines.flatMap(([path = "", value]) => (value === undefined ? [] : [[path, value]])),
  );
}

/** What {@link WRITE_SETTINGS} reads. */
export function settingsText(settings: readonly Setting[]): string {
  return settings.map(({ path, value }) => `${path} ${value}\n`).join("");
}
