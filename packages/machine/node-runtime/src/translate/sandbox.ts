// SPDX-License-Identifier: Apache-2.0
// The sandbox of a pod, as the container runtime is told. Pure: the same pod gives the same sandbox.
import type { Pod } from "@patchbay/api";
import type { SandboxConfig } from "@patchbay/core/ports";
import { logDirectoryOf, sandboxLabels } from "./labels.ts";
import type { NodeFacts } from "./node-facts.ts";
import { sandboxSecurityOf } from "./security.ts";

/** Source: Linux HOST_NAME_MAX, less one as the kubelet does. */
const HOSTNAME_MAX = 63;

/** Name of the machine as the pod sees it; the node's own where it has the node's network. */
export function hostnameOf({ metadata, spec }: Pod, nodeName: string): string {
  if (spec.hostNetwork === true) return nodeName;
  return (spec.hostname ?? metadata.name).slice(0, HOSTNAME_MAX).replace(/(?<![-.])[-.]+$/, "");
}

/** What the pod says of name servers; undefined: those of the node. */
function dnsOf({ spec }: Pod): SandboxConfig["dns"] {
  const { nameservers = [], searches = [], options = [] } = spec.dnsConfig ?? {};
  if (nameservers.length === 0) return undefined;
  return {
    servers: nameservers,
    searches,
    options: options.flatMap(({ name = "", value }) => {
      if (name === "") return [];
      return [value === undefined ? name : `${name}:${value}`];
    }),
  };
}

/** The sandbox's configuration; `attempt` counts the pod's sandboxes from 0. */
export function sandboxConfigOf(pod: Pod, attempt: number, node: NodeFacts): SandboxConfig {
  const { name, namespace = "", uid = "" } = pod.metadata;
  const dns = dnsOf(pod);
  const sysctls = pod.spec.securityContext?.sysctls ?? [];
  return {
    metadata: { name, namespace, uid, attempt },
    hostname: hostnameOf(pod, node.name),
    logDirectory: logDirectoryOf(pod, node.logDir),
    ...(dns !== undefined && { dns }),
    labels: sandboxLabels(pod),
    // Runtimes act on some; a pod's are anybody's words.
    annotations: {},
    cgroupParent: node.cgroupParent,
    sysctls: Object.fromEntries(sysctls.map((sysctl) => [sysctl.name, sysctl.value])),
    security: sandboxSecurityOf(pod),
  };
}
