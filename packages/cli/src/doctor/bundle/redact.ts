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

/** Replaces a removed value, so that a reader sees that the field was set. */
export const REMOVED = "(removed)";

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

/** Names of members whose text is a secret, for example `adminPassword`. Names of references, such as `secretName`, end differently. */
const SECRET_MEMBER =
  /(?:pass(?:word|wd|phrase)|secret|token|credential|private[_-]?key|api[_-]?key|psk)s?$/i;
/** Text in any string or log: credentials of a header, a value after a secret's name, a JSON Web Token. */
const HEADER_CREDENTIALS = /(?<!\w)(bearer|basic) {1,8}[\w.~+/=-]{6,}/gi;
const NAMED_SECRET =
  /((?:pass(?:word|wd|phrase)|secret|token|credential|private[_-]?key|api[_-]?key|psk)s?["'\\]{0,3}[ \t]{0,4}[=:][ \t]{0,4})(?:\\?"[^"\n]{0,4096}"|'[^'\n]{0,4096}'|[^\s,;]+)/gi;
const WEB_TOKEN = /(?<![\w-])eyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)?/g;
const ADDRESS = /(?<![a-z])[a-z][a-z+]{1,15}:\/\/[^\s"'<>\\]+/gi;
const KEY_BEGIN = /-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----/;
const KEY_END = /-----END [A-Z ]{0,20}PRIVATE KEY-----/;

/** Removes private keys in PEM. The text may begin or end within a key. */
function removeKeys(text: string): string {
  const parts: string[] = [];
  let rest = text;
  const leadingEnd = KEY_END.exec(rest);
  const firstBegin = KEY_BEGIN.exec(rest);
  if (leadingEnd !== null && (firstBegin === null || leadingEnd.index < firstBegin.index)) {
    parts.push(REMOVED);
    rest = rest.slice(leadingEnd.index + leadingEnd[0].length);
  }
  for (let begin = KEY_BEGIN.exec(rest); begin !== null; begin = KEY_BEGIN.exec(rest)) {
    parts.push(rest.slice(0, begin.index), REMOVED);
    const after = rest.slice(begin.index + begin[0].length);
    const end = KEY_END.exec(after);
    rest = end === null ? "" : after.slice(end.index + end[0].length);
  }
  return [...parts, rest].join("");
}

function shortenAddress(address: string): string {
  const [start = "", query] = address.split(/[?#]/, 2);
  const scheme = start.slice(0, start.indexOf("://") + 3);
  const [host = "", ...path] = start.slice(scheme.length).split("/");
  const end = query === undefined ? "" : `?${REMOVED}`;
  return `${scheme}${[host.slice(host.lastIndexOf("@") + 1), ...path].join("/")}${end}`;
}

/** Removes keys, tokens, passwords, and the credentials and queries of URLs from a text, for example a log. */
export function redactText(text: string): string {
  return removeKeys(text)
    .replace(ADDRESS, shortenAddress)
    .replace(HEADER_CREDENTIALS, `$1 ${REMOVED}`)
    .replace(NAMED_SECRET, `$1${REMOVED}`)
    .replace(WEB_TOKEN, REMOVED);
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

function isSecretText(value: unknown): boolean {
  return typeof value === "string" || (Array.isArray(value) && value.some(isSecretText));
}

function redactMember(name: string, value: unknown): unknown {
  if (Object.hasOwn(REMOVED_MEMBERS, name)) return REMOVED;
  if (name === "annotations" && isJsonObject(value)) return redactAnnotations(value);
  if (name === "env" && Array.isArray(value)) return redactEnvironment(value);
  if (/^(?:initC|ephemeralC|c)ontainers$/.test(name) && Array.isArray(value))
    return value.map(redactContainer);
  if (SECRET_MEMBER.test(name) && isSecretText(value)) return REMOVED;
  return redactValue(value);
}

function redactMembers(value: JsonObject): JsonObject {
  const members = Object.entries(value).map(
    ([name, one]) => [name, redactMember(name, one)] as const,
  );
  return Object.fromEntries(members);
}

/** Removes secrets from parsed JSON, for example a journal's row or a CNI configuration. */
export function redactValue(value: unknown): unknown {
  if (typeof value === "string") return redactString(value);
  if (Array.isArray(value)) return value.map(redactValue);
  return isJsonObject(value) ? redactMembers(value) : value;
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
