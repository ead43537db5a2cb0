// SPDX-License-Identifier: Apache-2.0
// Translates a pod to the CRI configuration of its sandbox. Pure and deterministic.
import { join } from "node:path";
import type { Pod } from "@patchbay/api";
import type { SandboxConfig } from "@patchbay/core/interfaces";
import { buildLogDirectory, sandboxLabels } from "./labels.ts";
import type { NodeFacts } from "./node-facts.ts";
import { toSandboxSecurity } from "./security.ts";

/** Source: kubelet's layout. */
export function buildHostsFilePath(podDirectory: string): string {
  return join(podDirectory, "etc-hosts");
}

/** The runtime's own file would be a copy of the node's. */
export function printHosts(hostname: string, podIps: readonly string[]): string {
  const own = podIps.map((ip) => `${ip}\t${hostname}\n`);
  return `127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n${own.join("")}`;
}

/** Source: Linux HOST_NAME_MAX, less one like the kubelet. */
const HOSTNAME_MAX = 63;

export function findHostname({ metadata, spec }: Pod, nodeName: string): string {
  if (spec.hostNetwork === true) return nodeName;
  return (spec.hostname ?? metadata.name).slice(0, HOSTNAME_MAX).replace(/(?<![-.])[-.]+$/, "");
}

/** Resolves names with fewer dots in the cluster first. Source: kubelet. */
const CLUSTER_OPTIONS = ["ndots:5"];

function findClusterDns({ metadata, spec }: Pod, { dns }: NodeFacts): SandboxConfig["dns"] {
  const { dnsPolicy = "ClusterFirst", hostNetwork = false } = spec;
  const usesClusterDns =
    dnsPolicy === "ClusterFirstWithHostNet" || (dnsPolicy === "ClusterFirst" && !hostNetwork);
  if (dns === undefined || !usesClusterDns) return undefined;
  const services = `svc.${dns.domain}`;
  return {
    servers: [dns.server],
    searches: [`${metadata.namespace ?? ""}.${services}`, services, dns.domain],
    options: CLUSTER_OPTIONS,
  };
}

/** The pod's option overrides the cluster's of that name. */
function optionName(option: string): string {
  return option.split(":")[0] ?? "";
}

function ownOptions({ spec }: Pod): readonly string[] {
  return (spec.dnsConfig?.options ?? []).flatMap(({ name = "", value }) => {
    if (name === "") return [];
    return [value === undefined ? name : `${name}:${value}`];
  });
}

const NO_DNS = { servers: [], searches: [], options: [] };

/** Undefined for the node's resolvers. */
function combineDns(pod: Pod, node: NodeFacts): SandboxConfig["dns"] {
  const { nameservers = [], searches = [] } = pod.spec.dnsConfig ?? {};
  const clusterDns = findClusterDns(pod, node) ?? NO_DNS;
  const servers = [...new Set([...clusterDns.servers, ...nameservers])];
  if (servers.length === 0) return undefined;
  const own = ownOptions(pod);
  const named = own.map(optionName);
  return {
    servers,
    searches: [...new Set([...clusterDns.searches, ...searches])],
    options: [
      ...clusterDns.options.filter((option) => !named.includes(optionName(option))),
      ...own,
    ],
  };
}

export function toSandboxConfig(pod: Pod, attempt: number, node: NodeFacts): SandboxConfig {
  const { name, namespace = "", uid = "" } = pod.metadata;
  const dns = combineDns(pod, node);
  const sysctls = pod.spec.securityContext?.sysctls ?? [];
  return {
    metadata: { name, namespace, uid, attempt },
    hostname: findHostname(pod, node.name),
    logDirectory: buildLogDirectory(pod, node.logDir),
    ...(dns !== undefined && { dns }),
    labels: sandboxLabels(pod),
    // Runtimes act on some annotations, and any pod author can set the pod's.
    annotations: {},
    cgroupParent: node.cgroupParent,
    sysctls: Object.fromEntries(sysctls.map((sysctl) => [sysctl.name, sysctl.value])),
    security: toSandboxSecurity(pod),
  };
}
