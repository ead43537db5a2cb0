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

/** Source: kubelet, for pods whose names are the cluster's: what has fewer dots is looked for there first. */
const CLUSTER_OPTIONS = ["ndots:5"];

/** What the cluster gives a pod, unless it has the node's network, or wants the node's name servers, or none. */
function clusterDnsOf({ metadata, spec }: Pod, { dns }: NodeFacts): SandboxConfig["dns"] {
  const { dnsPolicy = "ClusterFirst", hostNetwork = false } = spec;
  const isOfCluster =
    dnsPolicy === "ClusterFirstWithHostNet" || (dnsPolicy === "ClusterFirst" && !hostNetwork);
  if (dns === undefined || !isOfCluster) return undefined;
  const services = `svc.${dns.domain}`;
  return {
    servers: [dns.server],
    searches: [`${metadata.namespace ?? ""}.${services}`, services, dns.domain],
    options: CLUSTER_OPTIONS,
  };
}

/** An option without its value: the pod's own takes the place of the one of that name. */
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

/** The pod's name servers: the cluster's, and what it names itself; undefined: those of the node. */
function dnsOf(pod: Pod, node: NodeFacts): SandboxConfig["dns"] {
  const { nameservers = [], searches = [] } = pod.spec.dnsConfig ?? {};
  const given = clusterDnsOf(pod, node) ?? NO_DNS;
  const servers = [...new Set([...given.servers, ...nameservers])];
  if (servers.length === 0) return undefined;
  const own = ownOptions(pod);
  const named = own.map(optionName);
  return {
    servers,
    searches: [...new Set([...given.searches, ...searches])],
    options: [...given.options.filter((option) => !named.includes(optionName(option))), ...own],
  };
}

/** The sandbox's configuration; `attempt` counts the pod's sandboxes from 0. */
export function sandboxConfigOf(pod: Pod, attempt: number, node: NodeFacts): SandboxConfig {
  const { name, namespace = "", uid = "" } = pod.metadata;
  const dns = dnsOf(pod, node);
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
