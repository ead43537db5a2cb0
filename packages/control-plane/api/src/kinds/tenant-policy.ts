// SPDX-License-Identifier: Apache-2.0
// Policy for tenants' NetworkAttachmentDefinitions. POLICY_FIELDS defines net-agent's flags and the policy's schema in the kind KubeVirt.
import { Type } from "../fields/schema.ts";
import { parseIp, toNetworkAddress } from "../values/ip.ts";
import type { Cause } from "./kubernetes/meta.ts";

export interface PortRange {
  readonly first: number;
  readonly last: number;
}

const PORT_MAX = 65_535;

export function parsePortRange(text: string): PortRange | undefined {
  const [first = 0, last = first, ...extraParts] = text.split("-").map(Number);
  const isRange = extraParts.length === 0 && first >= 1 && first <= last && last <= PORT_MAX;
  return isRange ? { first, last } : undefined;
}

function isNetwork(text: string): boolean {
  const prefix = parseIp(text);
  return prefix !== undefined && toNetworkAddress(prefix).value === prefix.value;
}

type PolicyEntries = "namespaces" | "patterns" | "directories" | "prefixes" | "ports";

interface PolicyEntrySyntax {
  readonly pattern: string;
  readonly requirement: string;
  readonly isValid?: (entry: string) => boolean;
}

/** Syntax of the entries of the policy's lists. The patterns must be valid RE2 expressions, because the API server evaluates them. */
const POLICY_ENTRIES: Readonly<Record<PolicyEntries, PolicyEntrySyntax>> = {
  namespaces: {
    // Syntax of the name of a namespace. Source: Kubernetes namespace names, RFC 1123 label.
    pattern: "^[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?$",
    requirement: "must be the name of a namespace",
  },
  patterns: {
    // An entry is a name, a prefix followed by `*`, or only `*`. A leading `!` rejects the names that the rest of the entry matches.
    pattern: "^!?(?:[^!*,/\\s]+\\*?|\\*)$",
    requirement:
      "must be a name, the beginning of one with * behind it, or *, and may have ! before it",
  },
  directories: {
    // Rejects `.` and `..` as path components.
    pattern: "^(?:/(?:[^/.][^/]*|\\.[^/.][^/]*|\\.\\.[^/]+))+$",
    requirement: "must be an absolute path without . and .. in it and without / at its end",
  },
  prefixes: {
    pattern: "^[0-9A-Fa-f:.]{2,45}/[0-9]{1,3}$",
    requirement: "must be a network ADDRESS/LENGTH without host bits, for example 10.60.0.0/16",
    isValid: isNetwork,
  },
  ports: {
    pattern: "^[1-9][0-9]{0,4}(?:-[1-9][0-9]{0,4})?$",
    requirement: "must be a port from 1 to 65535, or FIRST-LAST",
    isValid: (entry) => parsePortRange(entry) !== undefined,
  },
};

interface PolicyField {
  /** Flag of net-agent that replaces this list on one node. */
  readonly flag: `--${string}`;
  readonly entries: PolicyEntries;
  readonly description: string;
  /** Default list, which applies if neither the cluster's configuration nor the node's flag sets a list. */
  readonly fallback: readonly string[];
}

const PATTERN_SYNTAX = "the first that matches counts, ! refuses, * at the end matches the rest";

/** Fields of the policy. By default, `paths` contains directories of the CNI plugins host-local, dhcp and tuning, and of Open vSwitch. */
export const POLICY_FIELDS = {
  trustedNamespaces: {
    flag: "--trusted-namespaces",
    entries: "namespaces",
    description:
      "namespaces whose network definitions are an administrator's, and may name everything",
    fallback: ["default", "kube-system", "patchbay"],
  },
  plugins: {
    flag: "--tenant-plugins",
    entries: "patterns",
    description: `plugins that definitions of other namespaces may name; ${PATTERN_SYNTAX}`,
    // Excludes host-device, which moves a NIC of the node into the pod, and Multus, which attaches networks that the policy does not check.
    fallback: ["!host-device", "!multus*", "*"],
  },
  masters: {
    flag: "--tenant-masters",
    entries: "patterns",
    description: "links of the node that they may name as master",
    fallback: ["*"],
  },
  bridges: {
    flag: "--tenant-bridges",
    entries: "patterns",
    description:
      "bridges that they may name; the node's own (one with a port that is no pod's and no guest's) must be named itself",
    // Excludes the pod network's bridge, and bridges of Docker, Podman and libvirt.
    fallback: ["!cni0", "!docker0", "!podman*", "!virbr*", "*"],
  },
  ipams: {
    flag: "--tenant-ipams",
    entries: "patterns",
    description:
      "IPAM plugins that they may name; one that only a pattern with * matches must be allowed as a plugin too",
    // CNI executes any plugin that `ipam.type` names. The list therefore does not contain `*`, which would permit all plugins.
    fallback: ["host-local", "static", "dhcp", "whereabouts"],
  },
  paths: {
    flag: "--tenant-paths",
    entries: "directories",
    description: "directories, and files, that their plugins may read and write",
    fallback: [
      "/var/lib/cni/networks",
      "/run/cni",
      "/var/run/cni",
      "/run/openvswitch",
      "/var/run/openvswitch",
    ],
  },
  ranges: {
    flag: "--tenant-ranges",
    entries: "prefixes",
    description:
      "networks whose addresses their plugins may give the node (isGateway, isDefaultGateway, ipMasq, ptp, firewall), and pods as their own address (annotation v1.multus-cni.io/default-network); a range that overlaps a cluster network, or an address or route of the node, allows nothing there",
    fallback: [],
  },
  clusterNetworks: {
    flag: "--cluster-networks",
    entries: "prefixes",
    description:
      "pod networks and Service networks of the cluster, which no range may overlap; without them the ranges allow nothing",
    fallback: [],
  },
  ports: {
    flag: "--tenant-ports",
    entries: "ports",
    description:
      "ports of the node that pods of other namespaces may request with portMappings, except those on which the node listens",
    fallback: [],
  },
} as const satisfies Readonly<Record<string, PolicyField>>;

export type PolicyFieldName = keyof typeof POLICY_FIELDS;

// The cast is safe, because the object has only the keys of its type.
export const POLICY_FIELD_NAMES = Object.keys(POLICY_FIELDS) as readonly PolicyFieldName[];

/** Tenant policy in the cluster's configuration. On a node, a flag of its net-agent can replace a list. An unset list has its default. */
export type ClusterTenantPolicy = Readonly<Partial<Record<PolicyFieldName, readonly string[]>>>;

const ENTRIES_MAX = 256;
/** Maximum length of an entry. Source: linux/limits.h PATH_MAX. */
const ENTRY_MAX = 4096;

export function printFallback(name: PolicyFieldName, separator: string): string {
  const { fallback }: PolicyField = POLICY_FIELDS[name];
  return fallback.length === 0 ? "none" : fallback.join(separator);
}

function buildSchema(name: PolicyFieldName): object {
  const field: PolicyField = POLICY_FIELDS[name];
  const capitalized = `${field.description.charAt(0).toUpperCase()}${field.description.slice(1)}`;
  const description = `${capitalized}. When absent: ${printFallback(name, ", ")}.`;
  const { pattern } = POLICY_ENTRIES[field.entries];
  const entry = Type.String({ maxLength: ENTRY_MAX, pattern });
  return Type.Optional(Type.Array(entry, { description, maxItems: ENTRIES_MAX }));
}

export const TENANT_POLICY = Type.Unsafe<ClusterTenantPolicy>({
  type: "object",
  description:
    "What network definitions of tenants may name. A list that net-agent of a node is given by a flag counts there instead.",
  properties: Object.fromEntries(POLICY_FIELD_NAMES.map((name) => [name, buildSchema(name)])),
});

/** Validates a list from a flag or from the cluster's configuration. `field` is the path in error messages. */
export function validatePolicyList(
  name: PolicyFieldName,
  value: unknown,
  field: string,
): readonly Cause[] {
  const buildCause = (path: string, message: string): Cause => ({
    reason: "FieldValueInvalid",
    field: path,
    message,
  });
  if (!Array.isArray(value)) return [buildCause(field, "must be a list of texts")];
  const { entries } = POLICY_FIELDS[name];
  const { pattern, requirement, isValid = () => true } = POLICY_ENTRIES[entries];
  const entrySyntax = new RegExp(pattern);
  return value.flatMap((entry: unknown, index) => {
    if (typeof entry === "string" && entrySyntax.test(entry) && isValid(entry)) return [];
    return [buildCause(`${field}[${String(index)}]`, `${JSON.stringify(entry)} ${requirement}`)];
  });
}
