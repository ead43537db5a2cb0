// SPDX-License-Identifier: Apache-2.0
// Translates a pod to the CRI configuration of its sandbox. Equal pods get equal configurations.
import { join } from "node:path";
import { names } from "@patchbay/api";
import type { Pod } from "@patchbay/api/kubernetes";
import type { SandboxConfig } from "@patchbay/core/interfaces";
import { buildLogDirectory, buildSandboxLabels } from "./labels.ts";
import type { NodeFacts } from "./node-facts.ts";
import { toSandboxSecurity } from "./security.ts";

/** Source: layout of the kubelet's pod directories. */
export function buildHostsFilePath(podDirectory: string): string {
  return join(podDirectory, "etc-hosts");
}

/** Returns the text of the pod's /etc/hosts, which replaces the runtime's copy of the node's file. */
export function printHosts(hostname: string, podIps: readonly string[]): string {
  const podLines = podIps.map((ip) => `${ip}\t${hostname}\n`);
  return `127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n${podLines.join("")}`;
}

/** Maximum length of a hostname, one less than HOST_NAME_MAX of Linux. Source: kubelet. */
const HOSTNAME_MAX = 63;

export function findHostname({ metadata, spec }: Pod, nodeName: string): string {
  if (spec.hostNetwork === true) return nodeName;
  return (spec.hostname ?? metadata.name).slice(0, HOSTNAME_MAX).replace(/(?<![-.])[-.]+$/, "");
}

/** Resolver options: names with fewer than 5 dots are first resolved in the cluster's domains. Source: kubelet. */
const CLUSTER_OPTIONS = ["ndots:5"];

function findClusterDns({ metadata, spec }: Pod, { dns }: NodeFacts): SandboxConfig["dns"] {
  const { dnsPolicy = "ClusterFirst", hostNetwork = false } = spec;
  const usesClusterDns =
    dnsPolicy === "ClusterFirstWithHostNet" || (dnsPolicy === "ClusterFirst" && !hostNetwork);
  if (dns === undefined || !usesClusterDns) return undefined;
  const servicesDomain = `svc.${dns.domain}`;
  return {
    servers: [dns.server],
    searches: [`${metadata.namespace ?? ""}.${servicesDomain}`, servicesDomain, dns.domain],
    options: CLUSTER_OPTIONS,
  };
}

function parseOptionName(option: string): string {
  return option.split(":")[0] ?? "";
}

function listPodOptions({ spec }: Pod): readonly string[] {
  return (spec.dnsConfig?.options ?? []).flatMap(({ name = "", value }) => {
    if (name === "") return [];
    return [value === undefined ? name : `${name}:${value}`];
  });
}

const NO_DNS = { servers: [], searches: [], options: [] };

/** Returns the pod's DNS configuration; undefined if the pod uses the node's resolvers. */
function combineDns(pod: Pod, node: NodeFacts): SandboxConfig["dns"] {
  const { nameservers = [], searches = [] } = pod.spec.dnsConfig ?? {};
  const clusterDns = findClusterDns(pod, node) ?? NO_DNS;
  const servers = [...new Set([...clusterDns.servers, ...nameservers])];
  if (servers.length === 0) return undefined;
  const podOptions = listPodOptions(pod);
  const podOptionNames = podOptions.map(parseOptionName);
  return {
    servers,
    searches: [...new Set([...clusterDns.searches, ...searches])],
    options: [
      ...clusterDns.options.filter((option) => !podOptionNames.includes(parseOptionName(option))),
      ...podOptions,
    ],
  };
}

function findRuntimeHandler(
  { metadata, spec }: Pod,
  { ownNetworkRuntime }: NodeFacts,
): string | undefined {
  const hasOwnNetwork = metadata.annotations?.[names.DEFAULT_NETWORK_ANNOTATION] !== undefined;
  return hasOwnNetwork && spec.hostNetwork !== true ? ownNetworkRuntime : undefined;
}

export function toSandboxConfig(pod: Pod, attempt: number, node: NodeFacts): SandboxConfig {
  const { name, namespace = "", uid = "" } = pod.metadata;
  const dns = combineDns(pod, node);
  const runtimeHandler = findRuntimeHandler(pod, node);
  const sysctls = pod.spec.securityContext?.sysctls ?? [];
  return {
    metadata: { name, namespace, uid, attempt },
    hostname: findHostname(pod, node.name),
    logDirectory: buildLogDirectory(pod, node.logDir),
    ...(dns !== undefined && { dns }),
    labels: buildSandboxLabels(pod),
    // Annotations are not passed to the runtime: some change its behavior, and any pod author can set them.
    annotations: {},
    cgroupParent: node.cgroupParent,
    ...(runtimeHandler !== undefined && { runtimeHandler }),
    sysctls: Object.fromEntries(sysctls.map((sysctl) => [sysctl.name, sysctl.value])),
    security: toSandboxSecurity(pod),
  };
}
