// SPDX-License-Identifier: Apache-2.0
import type { VirtualMachineInstance } from "@patchbay/api";

/** Maximum length of a hostname. Source: RFC 1123 section 2.1. */
const HOSTNAME_MAX = 63;

/** Returns the first label of the VMI's hostname or name: at most 63 characters, no `-` at the end. Source: KubeVirt SanitizeHostname. */
export function buildHostname({ metadata, spec }: VirtualMachineInstance): string {
  const hostname = spec.hostname ?? "";
  const [firstLabel = ""] = (hostname === "" ? metadata.name : hostname).split(".");
  return firstLabel.slice(0, HOSTNAME_MAX).replace(/(?<!-)-+$/, "");
}

/** Source: Kubernetes validation of label values. */
const LABEL_VALUE_MAX = 63;
const HASH_DIGITS = 8;

/** Returns the hexadecimal 32-bit FNV-1a hash of a name. */
function hashText(text: string): string {
  let hash = 0x811c9dc5;
  // Each character is one byte, because names are ASCII. Source: Kubernetes names.
  for (const letter of text) {
    hash = Math.imul(hash ^ (letter.codePointAt(0) ?? 0), 0x01000193) >>> 0;
  }
  return hash.toString(16).padStart(HASH_DIGITS, "0");
}

/** Shortens a name of more than 63 characters and appends a hash of the whole name. */
export function toLabelValue(name: string): string {
  if (name.length <= LABEL_VALUE_MAX) return name;
  const prefix = name
    .slice(0, LABEL_VALUE_MAX - HASH_DIGITS - 1)
    .replace(/(?<=^|[a-zA-Z0-9])[^a-zA-Z0-9]+$/, "");
  return `${prefix}-${hashText(name)}`;
}
