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

/**
 * Shell that reads lines of PATH VALUE, and writes; it stops at the first that fails. A container's own /proc/sys is
 * read-only; an agent that sees the machine's processes finds the machine's behind the first of them. Whose settings
 * are written is decided by the namespace that the shell is in, not by the mount.
 */
export const WRITE_SETTINGS =
  '{ cd /proc/1/root/proc/sys/net 2>/dev/null || cd /proc/sys/net; } && while read -r file value; do echo "$value" >"$file" || exit 1; done';

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
