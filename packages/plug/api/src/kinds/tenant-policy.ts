// SPDX-License-Identifier: Apache-2.0
// What may network definitions of tenants name? One table for the cluster's configuration, flags and messages.
import { Type } from "../fields/schema.ts";
import type { Cause } from "./kubernetes/meta.ts";

/** How the entries of a list are written. The expressions are also RE2's, by which API servers judge. */
const POLICY_ENTRIES = {
  namespaces: {
    // Source: Kubernetes names of namespaces, RFC 1123 label.
    pattern: "^[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?$",
    must: "must be the name of a namespace",
  },
  patterns: {
    // No name of a plugin or of a link has any of these characters within.
    pattern: "^!?(?:[^!*,/\\s]+\\*?|\\*)$",
    must: "must be a name, the beginning of one with * behind it, or *, and may have ! before it",
  },
  directories: {
    // No part of it is `.` or `..`.
    pattern: "^(?:/(?:[^/.][^/]*|\\.[^/.][^/]*|\\.\\.[^/]+))+$",
    must: "must be an absolute path without . and .. in it and without / at its end",
  },
} as const;

interface PolicyField {
  /** Flag of net-agent that says the same for its node. */
  readonly flag: `--${string}`;
  readonly entries: keyof typeof POLICY_ENTRIES;
  readonly about: string;
  /** What counts where nobody says anything. */
  readonly fallback: readonly string[];
}

const PATTERNS = "the first that matches counts, ! refuses, * at the end matches the rest";

/**
 * By their names in the configuration, in the order in which they are told. Sources of what counts by default: plugins
 * host-local, dhcp, tuning; names that runtimes give to bridges.
 */
export const POLICY_FIELDS = {
  trustedNamespaces: {
    flag: "--trusted-namespaces",
    entries: "namespaces",
    about: "namespaces whose network definitions are an administrator's, and may name everything",
    fallback: ["default", "kube-system", "patchbay"],
  },
  plugins: {
    flag: "--tenant-plugins",
    entries: "patterns",
    about: `plugins that definitions of other namespaces may name; ${PATTERNS}`,
    // The one takes a NIC away from the node; the others attach what the pod's annotation names, which nobody has judged.
    fallback: ["!host-device", "!multus*", "*"],
  },
  masters: {
    flag: "--tenant-masters",
    entries: "patterns",
    about: "links of the node that they may name as master",
    fallback: ["*"],
  },
  bridges: {
    flag: "--tenant-bridges",
    entries: "patterns",
    about:
      "bridges that they may name; the node's own (one with a port that is no pod's and no guest's) must be named itself",
    // Those of the pods' own network, and of other programs' guests.
    fallback: ["!cni0", "!docker0", "!podman*", "!virbr*", "*"],
  },
  ipams: {
    flag: "--tenant-ipams",
    entries: "patterns",
    about:
      "IPAM plugins that they may name; one that only a pattern with * matches must be allowed as a plugin too",
    // Of plugins that others make. A program that is no IPAM plugin would do here what it does as a plugin.
    fallback: ["host-local", "static", "dhcp", "whereabouts"],
  },
  paths: {
    flag: "--tenant-paths",
    entries: "directories",
    about: "directories, and files, that their plugins may read and write",
    fallback: [
      "/var/lib/cni/networks",
      "/run/cni",
      "/var/run/cni",
      "/run/openvswitch",
      "/var/run/openvswitch",
    ],
  },
} as const satisfies Readonly<Record<string, PolicyField>>;

/** One of the lists. */
export type PolicyFieldName = keyof typeof POLICY_FIELDS;

/** The lists, in the order in which they are told. */
// The keys of the table are the type.
export const POLICY_FIELD_NAMES = Object.keys(POLICY_FIELDS) as readonly PolicyFieldName[];

/** What the cluster says of it; what it leaves out is left to the nodes. */
export type ClusterTenantPolicy = Readonly<Partial<Record<PolicyFieldName, readonly string[]>>>;

/** Most entries of a list. */
const ENTRIES_MAX = 256;
/** Most characters of an entry. Source: linux/limits.h PATH_MAX. */
const ENTRY_MAX = 4096;

function schemaOf(name: PolicyFieldName): object {
  const { about, fallback, entries }: PolicyField = POLICY_FIELDS[name];
  const description = `${about.charAt(0).toUpperCase()}${about.slice(1)}. When absent: ${fallback.join(", ")}.`;
  const { pattern } = POLICY_ENTRIES[entries];
  const entry = Type.String({ maxLength: ENTRY_MAX, pattern });
  return Type.Optional(Type.Array(entry, { description, maxItems: ENTRIES_MAX }));
}

/** The lists as the cluster's configuration has them. */
export const TENANT_POLICY = Type.Unsafe<ClusterTenantPolicy>({
  type: "object",
  description:
    "What network definitions of tenants may name. A list that net-agent of a node is given by a flag counts there instead.",
  properties: Object.fromEntries(POLICY_FIELD_NAMES.map((name) => [name, schemaOf(name)])),
});

/** All that is wrong with a list, wherever it comes from; `field` is its path. */
export function policyCauses(
  name: PolicyFieldName,
  value: unknown,
  field: string,
): readonly Cause[] {
  const invalid = (at: string, message: string): Cause => ({
    reason: "FieldValueInvalid",
    field: at,
    message,
  });
  if (!Array.isArray(value)) return [invalid(field, "must be a list of texts")];
  const { pattern, must } = POLICY_ENTRIES[POLICY_FIELDS[name].entries];
  const isUnderstood = new RegExp(pattern);
  return value.flatMap((entry: unknown, index) => {
    if (typeof entry === "string" && isUnderstood.test(entry)) return [];
    return [invalid(`${field}[${String(index)}]`, `${JSON.stringify(entry)} ${must}`)];
  });
}
