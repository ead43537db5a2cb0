// SPDX-License-Identifier: Apache-2.0
// What a pod's /etc/hosts says. The runtime's own would be the node's.
import { join } from "node:path";

/** Where it is kept, below the pod's directory. Source: kubelet's layout. */
export function hostsFileOf(podDirectory: string): string {
  return join(podDirectory, "etc-hosts");
}

/** The file's text; addresses of the pod with its name. */
export function printHosts(hostname: string, podIps: readonly string[]): string {
  const own = podIps.map((ip) => `${ip}\t${hostname}\n`);
  return `127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n${own.join("")}`;
}
