// SPDX-License-Identifier: Apache-2.0
// Kinds of objects in a bundle, and removal of secrets from objects and logs.
import {
  API_SERVICES,
  CLUSTER_INSTANCETYPES,
  CLUSTER_PREFERENCES,
  DAEMON_SETS,
  DATA_VOLUMES,
  DEPLOYMENTS,
  EVENTS,
  INSTANCETYPES,
  IPAM_CLAIMS,
  KUBEVIRTS,
  LEASES,
  MIGRATION_POLICIES,
  MULTI_NETWORK_POLICIES,
  MUTATING_WEBHOOKS,
  names,
  NAMESPACES,
  NETWORK_ATTACHMENT_DEFINITIONS,
  NODES,
  PODS,
  PREFERENCES,
  VALIDATING_WEBHOOKS,
  VIRTUAL_MACHINE_INSTANCE_MIGRATIONS,
  VIRTUAL_MACHINE_INSTANCES,
  VIRTUAL_MACHINES,
  type ResourceType,
} from "@patchbay/api";
import { isJsonObject, parseJson, type JsonObject } from "@patchbay/api/json";
import type { KubeObject } from "@patchbay/api/kubernetes";
import { DEFINITIONS } from "@patchbay/manifests";
import { isSecretFlag, isSecretName, redactLine, REMOVED, removeKeys } from "./secret-text.ts";

/**
 * Which objects of a kind are in a bundle: `all`, those with Patchbay's label (`labeled`), those in Patchbay's namespace (`services`), or
 * that namespace itself.
 */
type Selection = "all" | "labeled" | "services" | "namespace";

export interface BundledKind {
  readonly type: ResourceType<KubeObject>;
  readonly selection: Selection;
  /** Members of the object besides `apiVersion`, `kind` and `metadata`. */
  readonly members: readonly string[];
}

const SPEC_AND_STATUS: readonly string[] = ["spec", "status"];
const EVENT_MEMBERS: readonly string[] = [
  "action",
  "count",
  "eventTime",
  "firstTimestamp",
  "involvedObject",
  "lastTimestamp",
  "message",
  "reason",
  "related",
  "reportingComponent",
  "reportingInstance",
  "series",
  "source",
  "type",
];

function bundle(
  type: ResourceType<KubeObject>,
  selection: Selection,
  members: readonly string[] = SPEC_AND_STATUS,
): BundledKind {
  return { type, selection, members };
}

export const BUNDLED_KINDS: readonly BundledKind[] = [
  bundle(KUBEVIRTS, "all"),
  bundle(VIRTUAL_MACHINES, "all"),
  bundle(VIRTUAL_MACHINE_INSTANCES, "all"),
  bundle(VIRTUAL_MACHINE_INSTANCE_MIGRATIONS, "all"),
  bundle(MIGRATION_POLICIES, "all"),
  bundle(INSTANCETYPES, "all"),
  bundle(CLUSTER_INSTANCETYPES, "all"),
  bundle(PREFERENCES, "all"),
  bundle(CLUSTER_PREFERENCES, "all"),
  bundle(DATA_VOLUMES, "all"),
  bundle(NETWORK_ATTACHMENT_DEFINITIONS, "all"),
  bundle(IPAM_CLAIMS, "all"),
  bundle(MULTI_NETWORK_POLICIES, "all"),
  bundle(NODES, "all"),
  bundle(NAMESPACES, "namespace"),
  bundle(DEPLOYMENTS, "services"),
  bundle(DAEMON_SETS, "services"),
  bundle(PODS, "services"),
  bundle(LEASES, "services"),
  bundle(EVENTS, "services", EVENT_MEMBERS),
  bundle(API_SERVICES, "labeled"),
  bundle(DEFINITIONS, "labeled"),
  bundle(MUTATING_WEBHOOKS, "labeled", ["webhooks"]),
  bundle(VALIDATING_WEBHOOKS, "labeled", ["webhooks"]),
];

const METADATA: ReadonlySet<string> = new Set([
  "annotations",
  "creationTimestamp",
  "deletionGracePeriodSeconds",
  "deletionTimestamp",
  "finalizers",
  "generateName",
  "generation",
  "labels",
  "name",
  "namespace",
  "ownerReferences",
  "resourceVersion",
  "uid",
]);

export const RETAINED_ANNOTATIONS: readonly string[] = [
  "k8s.ovn.org/",
  "k8s.v1.cni.cncf.io/",
  "kubevirt.io/",
  "network.kubevirt.io/",
  "patchbay.io/",
  "v1.multus-cni.io/",
];

/** Members whose values are removed wherever they are in an object, with the reason for the documentation. */
export const REMOVED_MEMBERS: Readonly<Record<string, string>> = {
  binaryData: "content of ConfigMaps",
  caBundle: "certificates",
  cniArgs: "arguments of CNI plugins",
  "cni-args": "arguments of CNI plugins",
  data: "content of ConfigMaps, Secrets and revisions",
  exec: "commands of probes and lifecycle hooks",
  extraHeaders: "headers of HTTP requests",
  httpHeaders: "headers of HTTP requests",
  images: "images of a node, because the list is long",
  kernelArgs: "a guest's kernel arguments",
  networkData: "cloud-init's network data",
  networkDataBase64: "cloud-init's network data",
  openAPIV3Schema: "schemas of kinds, because they are long",
  stringData: "content of Secrets",
  userData: "cloud-init's user data",
  userDataBase64: "cloud-init's user data",
};

/** Containers whose command and arguments are retained. Those of other containers, such as hooks, are a user's. */
const SERVICE_CONTAINERS: ReadonlySet<unknown> = new Set([
  "net-agent",
  "virt-api",
  "virt-controller",
  "virt-handler",
]);

/** Members in which `key` is the name of a label, a taint or an entry. Lines of logs contain keys of objects. */
const LOG_LINE = "(line)";
const KEY_PARENTS: ReadonlySet<string> = new Set([
  LOG_LINE,
  "configMapKeyRef",
  "items",
  "matchExpressions",
  "matchFields",
  "secretKeyRef",
  "taints",
  "tolerations",
]);

function redactTextLine(line: string): string {
  const parsed = line.startsWith("{") ? parseJson(line) : undefined;
  return isJsonObject(parsed) ? JSON.stringify(redactMembers(parsed, LOG_LINE)) : redactLine(line);
}

/** Removes keys, tokens, passwords, and the credentials and queries of URLs from a text, for example a log. */
export function redactText(text: string): string {
  return removeKeys(text).split("\n").map(redactTextLine).join("\n");
}

function redactString(text: string): string {
  const parsed = /^\s*[[{]/.test(text) ? parseJson(text) : undefined;
  return typeof parsed === "object" && parsed !== null
    ? JSON.stringify(redactValue(parsed))
    : redactText(text);
}

function redactAnnotations(annotations: JsonObject): JsonObject {
  const entries = Object.entries(annotations).map(([key, value]) => {
    const isRetained =
      RETAINED_ANNOTATIONS.some((prefix) => key.startsWith(prefix)) &&
      key !== names.LAST_INSTALLED_ANNOTATION;
    return [key, isRetained ? redactValue(value) : REMOVED] as const;
  });
  return Object.fromEntries(entries);
}

/** Removes the values of environment variables. References to Secrets and ConfigMaps contain names only. */
function redactEnvironment(env: readonly unknown[]): readonly unknown[] {
  return env.filter(isJsonObject).map(({ value, ...rest }) => ({
    ...rest,
    ...(value !== undefined && { value: REMOVED }),
  }));
}

function redactContainer(container: unknown): unknown {
  if (!isJsonObject(container)) return REMOVED;
  const isService = SERVICE_CONTAINERS.has(container["name"]);
  const { command, args, ...rest } = container;
  const own = {
    ...(command !== undefined && { command: isService ? redactValue(command) : REMOVED }),
    ...(args !== undefined && { args: isService ? redactValue(args) : REMOVED }),
  };
  return { ...redactMembers(rest), ...own };
}

function isSecretContent(value: unknown): boolean {
  return (
    typeof value === "string" ||
    typeof value === "number" ||
    (Array.isArray(value) && value.some(isSecretContent))
  );
}

function isSecretMember(name: string, parent: string): boolean {
  if (name === "key") return !KEY_PARENTS.has(parent);
  return isSecretName(name) || (/^values?$/.test(name) && isSecretName(parent));
}

function redactMember(name: string, value: unknown, parent: string): unknown {
  if (Object.hasOwn(REMOVED_MEMBERS, name)) return REMOVED;
  if (name === "annotations" && isJsonObject(value)) return redactAnnotations(value);
  if (name === "env" && Array.isArray(value)) return redactEnvironment(value);
  if (/^(?:initC|ephemeralC|c)ontainers$/.test(name) && Array.isArray(value))
    return value.map(redactContainer);
  if (isSecretMember(name, parent) && isSecretContent(value)) return REMOVED;
  return redactValue(value, name);
}

function redactMembers(value: JsonObject, parent = ""): JsonObject {
  const members = Object.entries(value).map(
    ([name, one]) => [name, redactMember(name, one, parent)] as const,
  );
  return Object.fromEntries(members);
}

/** Removes secrets from parsed JSON, for example a journal's row or a CNI configuration. */
export function redactValue(value: unknown, parent = ""): unknown {
  if (typeof value === "string") return redactString(value);
  if (Array.isArray(value))
    return value.map((one: unknown, index) =>
      isSecretFlag(value[index - 1]) && isSecretContent(one) ? REMOVED : redactValue(one, parent),
    );
  return isJsonObject(value) ? redactMembers(value, parent) : value;
}

/** Removes a network's configuration that is not JSON, because its members cannot be distinguished. */
function redactConfig(spec: unknown): unknown {
  const isUnreadable =
    isJsonObject(spec) &&
    typeof spec["config"] === "string" &&
    !isJsonObject(parseJson(spec["config"]));
  return isUnreadable ? { ...spec, config: REMOVED } : spec;
}

/** Returns the object without secrets. Retains only the known members of a bundled kind. */
export function redactObject({ type, members }: BundledKind, object: KubeObject): JsonObject {
  const fields: JsonObject = { ...object };
  const metadata = Object.entries(object.metadata).filter(([name]) => METADATA.has(name));
  const isNetwork = type === NETWORK_ATTACHMENT_DEFINITIONS;
  const retained = members
    .filter((name) => fields[name] !== undefined)
    .map((name) => [name, isNetwork ? redactConfig(fields[name]) : fields[name]] as const);
  return {
    apiVersion: object.apiVersion,
    kind: type.kind,
    metadata: redactMembers(Object.fromEntries(metadata)),
    ...redactMembers(Object.fromEntries(retained)),
  };
}
