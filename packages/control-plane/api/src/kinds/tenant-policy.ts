// SPDX-License-Identifier: Apache-2.0
// Policy for tenants' NetworkAttachmentDefinitions. POLICY_FIELDS defines net-agent's flags and the policy's schema in the kind KubeVirt.
import { Type } from "../fields/schema.ts";
import type { Cause } from "./kubernetes/meta.ts";

/** Syntax of the entries of the policy's lists. The patterns must be valid RE2 expressions, because the API server evaluates them. */
const POLICY_ENTRIES = {
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
} as const;

interface PolicyField {
  /** Flag of net-agent that replaces this list on one node. */
  readonly flag: `--${string}`;
  readonly entries: keyof typeof POLICY_ENTRIES;
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
} as const satisfies Readonly<Record<string, PolicyField>>;

export type PolicyFieldName = keyof typeof POLICY_FIELDS;

// The cast is safe, because the object has only the keys of its type.
export const POLICY_FIELD_NAMES = Object.keys(POLICY_FIELDS) as readonly PolicyFieldName[];

/** Tenant policy in the cluster's configuration. On a node, a flag of its net-agent can replace a list. An unset list has its default. */
export type ClusterTenantPolicy = Readonly<Partial<Record<PolicyFieldName, readonly string[]>>>;

const ENTRIES_MAX = 256;
/** Maximum length of an entry. Source: linux/limits.h PATH_MAX. */
const ENTRY_MAX = 4096;

function buildSchema(name: PolicyFieldName): object {
  const field: PolicyField = POLICY_FIELDS[name];
  const capitalized = `${field.description.charAt(0).toUpperCase()}${field.description.slice(1)}`;
  const description = `${capitalized}. When absent: ${field.fallback.join(", ")}.`;
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
  const { pattern, requirement } = POLICY_ENTRIES[POLICY_FIELDS[name].entries];
  const entrySyntax = new RegExp(pattern);
  return value.flatMap((entry: unknown, index) => {
    if (typeof entry === "string" && entrySyntax.test(entry)) return [];
    return [buildCause(`${field}[${String(index)}]`, `${JSON.stringify(entry)} ${requirement}`)];
  });
}
