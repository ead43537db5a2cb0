// SPDX-License-Identifier: Apache-2.0
// What the guest is called in its network.
import type { VirtualMachineInstance } from "@patchbay/api";

/** Longest name of a host in DNS. Source: RFC 1123 section 2.1. */
const LABEL_MAX = 63;

/** The VMI's `hostname`, else its name up to the first dot; never longer than a host's name may be. Source: KubeVirt dns.SanitizeHostname. */
export function hostnameOf({ metadata, spec }: VirtualMachineInstance): string {
  const hostname = spec.hostname ?? "";
  const [first = ""] = (hostname === "" ? metadata.name : hostname).split(".");
  return first.slice(0, LABEL_MAX).replace(/(?<!-)-+$/, "");
}

/** Source: Kubernetes validation of label values. */
const VALUE_MAX = 63;
const HASH_DIGITS = 8;

/** FNV-1a of 32 bits, hexadecimal: tells names apart, keeps nothing secret. */
function hashOf(text: string): string {
  let hash = 0x811c9dc5;
  // Names are ASCII. Source: Kubernetes names.
  for (const letter of text) {
    hash = Math.imul(hash ^ (letter.codePointAt(0) ?? 0), 0x01000193) >>> 0;
  }
  return hash.toString(16).padStart(HASH_DIGITS, "0");
}

/** The name, or as much of it as a label can hold, with a hash of all of it. */
export function labelValueOf(name: string): string {
  if (name.length <= VALUE_MAX) return name;
  const start = name
    .slice(0, VALUE_MAX - HASH_DIGITS - 1)
    .replace(/(?<=^|[a-zA-Z0-9])[^a-zA-Z0-9]+$/, "");
  return `${start}-${hashOf(name)}`;
}
