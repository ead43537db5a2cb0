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
