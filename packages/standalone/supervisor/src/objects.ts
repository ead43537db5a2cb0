// SPDX-License-Identifier: Apache-2.0
// Objects that Patchbay maintains in the API server of a standalone machine.
import {
  apiVersionOf,
  CLUSTER_INSTANCETYPES,
  CLUSTER_PREFERENCES,
  customResourceDefinitions,
  DATA_VOLUMES,
  ENDPOINTS,
  INSTANCETYPES,
  KUBEVIRTS,
  names,
  NETWORK_ATTACHMENT_DEFINITIONS,
  PODS,
  PREFERENCES,
  VIRTUAL_MACHINE_INSTANCE_MIGRATIONS,
  type ResourceType,
} from "@patchbay/api";
import type { KubeObject } from "@patchbay/api/kubernetes";
import {
  buildConditions,
  applyManifests,
  applyObject,
  parseManifests,
  readManifests,
} from "@patchbay/manifests";
import type { Files, Store } from "@patchbay/core/interfaces";

const SERVICE = "virt-api";
const WEBHOOK_TIMEOUT_SECONDS = 10;

type AnyObject = KubeObject & Readonly<Record<string, unknown>>;

function buildType(apiVersion: string, kind: string, resource: string): ResourceType<AnyObject> {
  const [version = "", group = ""] = apiVersion.split("/").reverse();
  const namespaced = resource === "services";
  return { group, version, kind, resource, namespaced };
}

const CRDS = buildType(
  "apiextensions.k8s.io/v1",
  "CustomResourceDefinition",
  "customresourcedefinitions",
);
const SERVICES = buildType("v1", "Service", "services");
const API_SERVICES = buildType("apiregistration.k8s.io/v1", "APIService", "apiservices");
const MUTATING_WEBHOOKS = buildType(
  "admissionregistration.k8s.io/v1",
  "MutatingWebhookConfiguration",
  "mutatingwebhookconfigurations",
);
const VALIDATING_WEBHOOKS = buildType(
  "admissionregistration.k8s.io/v1",
  "ValidatingWebhookConfiguration",
  "validatingwebhookconfigurations",
);

function newObject(
  type: ResourceType<KubeObject>,
  name: string,
  fields: Readonly<Record<string, unknown>>,
): AnyObject {
  const metadata = type.namespaced ? { name, namespace: names.SERVICES_NAMESPACE } : { name };
  return { apiVersion: apiVersionOf(type), kind: type.kind, metadata, ...fields };
}

/** Writes the product's namespace, service accounts and roles. */
export async function ensureRights(store: Store, files: Files, nodeName: string): Promise<void> {
  await applyManifests(store, parseManifests(await readManifests(files, "standalone"), nodeName));
}

export async function ensureKinds(store: Store): Promise<void> {
  const definitions = customResourceDefinitions();
  await Promise.all(definitions.map((definition) => applyObject(store, CRDS, definition)));
}

/** Sets only the detected values of the KubeVirt object. Preserves settings of users. */
export async function ensureKubeVirt(store: Store, useEmulation: boolean): Promise<void> {
  const configuration = { developerConfiguration: { useEmulation } };
  const object = newObject(KUBEVIRTS, "kubevirt", { spec: { configuration } });
  await applyObject(store, KUBEVIRTS, object);
}

export interface VirtApiAddress {
  readonly port: number;
  readonly caPem: string;
}

interface Webhook {
  readonly name: string;
  readonly path: string;
  readonly group: string;
  /** API versions. Defaults to v1. */
  readonly versions?: readonly string[];
  readonly operations: readonly string[];
  readonly resources: readonly string[];
  readonly isClusterScoped?: boolean;
  readonly isRequired: boolean;
  /** Labels of the objects to send; unset for all objects. */
  readonly labels?: Readonly<Record<string, string>>;
}

const VM_RULE = { group: names.KUBEVIRT_GROUP, isRequired: true };
const VM_RESOURCES = ["virtualmachines", "virtualmachineinstances"];
const WRITES = { ...VM_RULE, operations: ["CREATE", "UPDATE"], resources: VM_RESOURCES };
const MUTATE: Webhook = { name: "mutate", path: "mutate", ...WRITES };
const VALIDATE: Webhook = { name: "validate", path: "validate", ...WRITES };
/** Webhook that restricts node agents to VMIs on their node. */
const NODE_RESTRICTION: Webhook = {
  ...VM_RULE,
  name: "guard",
  path: "validate",
  operations: ["UPDATE"],
  resources: ["virtualmachineinstances/status"],
};

/** Webhook that only warns, so that writes of networks never fail. */
const NETWORKS: Webhook = {
  name: "networks",
  path: "validate",
  group: NETWORK_ATTACHMENT_DEFINITIONS.group,
  operations: ["CREATE", "UPDATE"],
  resources: [NETWORK_ATTACHMENT_DEFINITIONS.resource],
  isRequired: false,
};

/** Webhook that checks updates of launcher pods, whose networks only their own node may report. */
const LAUNCHER: Webhook = {
  name: "launcher",
  path: "validate",
  operations: ["UPDATE"],
  resources: [PODS.resource],
  group: PODS.group,
  isRequired: true,
  labels: { [names.KUBEVIRT_LABEL]: names.LAUNCHER_LABEL_VALUE },
};

const VALIDATED_WRITES = { path: "validate", operations: ["CREATE", "UPDATE"], isRequired: true };

const INSTANCETYPE_RULES: Webhook = {
  ...VALIDATED_WRITES,
  name: "instancetypes",
  group: names.INSTANCETYPE_GROUP,
  versions: [INSTANCETYPES.version],
  resources: [INSTANCETYPES, CLUSTER_INSTANCETYPES, PREFERENCES, CLUSTER_PREFERENCES].map(
    ({ resource }) => resource,
  ),
  isClusterScoped: true,
};

const DATA_VOLUME_SOURCES: Webhook = {
  ...VALIDATED_WRITES,
  name: "data-volumes",
  group: DATA_VOLUMES.group,
  versions: [DATA_VOLUMES.version],
  resources: [DATA_VOLUMES.resource],
};

const MIGRATION_RULES: readonly Webhook[] = [
  {
    ...VALIDATED_WRITES,
    name: "migrations",
    group: VIRTUAL_MACHINE_INSTANCE_MIGRATIONS.group,
    resources: [VIRTUAL_MACHINE_INSTANCE_MIGRATIONS.resource],
  },
  {
    name: "evictions",
    path: "validate",
    operations: ["CREATE"],
    resources: [`${PODS.resource}/eviction`],
    group: PODS.group,
    isRequired: false,
  },
];

const UNSUPPORTED_KINDS: readonly Webhook[] = [
  {
    ...VALIDATED_WRITES,
    name: "refused",
    group: names.KUBEVIRT_GROUP,
    versions: ["*"],
    resources: ["virtualmachineinstancereplicasets"],
  },
  {
    ...VALIDATED_WRITES,
    name: "refused-pools",
    group: names.POOL_GROUP,
    versions: ["*"],
    resources: ["virtualmachinepools"],
  },
  {
    ...VALIDATED_WRITES,
    name: "refused-exports",
    group: names.EXPORT_GROUP,
    versions: ["*"],
    resources: ["virtualmachineexports"],
  },
];

function toRule(webhook: Webhook): object {
  const { group, versions = ["v1"], operations, resources, isClusterScoped = false } = webhook;
  const scope = isClusterScoped ? "*" : "Namespaced";
  return { apiGroups: [group], apiVersions: versions, operations, resources, scope };
}

function toWebhook(webhook: Webhook, address: VirtApiAddress): object {
  const { name, path, isRequired, labels } = webhook;
  const conditions = buildConditions(name);
  return {
    name: `${name}.virt-api.patchbay.io`,
    clientConfig: {
      url: `https://127.0.0.1:${String(address.port)}/${path}`,
      caBundle: Buffer.from(address.caPem).toString("base64"),
    },
    rules: [toRule(webhook)],
    ...(labels === undefined ? {} : { objectSelector: { matchLabels: labels } }),
    failurePolicy: isRequired ? "Fail" : "Ignore",
    sideEffects: "None",
    admissionReviewVersions: ["v1"],
    timeoutSeconds: WEBHOOK_TIMEOUT_SECONDS,
    ...(conditions.length === 0 ? {} : { matchConditions: conditions }),
  };
}

/** API versions of the subresources, as in the cluster manifests. */
const SUBRESOURCE_VERSIONS = ["v1", "v1alpha3"] as const;

/** Connects the API server to virt-api: aggregation by Service, admission by URL. */
export async function ensureVirtApi(store: Store, address: VirtApiAddress): Promise<void> {
  const { port, caPem } = address;
  const ports = [{ name: "https", port: 443, targetPort: port, protocol: "TCP" }];
  await applyObject(store, SERVICES, newObject(SERVICES, SERVICE, { spec: { ports } }));
  const subsets = [
    {
      addresses: [{ ip: "127.0.0.1" }],
      ports: [{ name: "https", port, protocol: "TCP" }],
    },
  ];
  await applyObject(store, ENDPOINTS, newObject(ENDPOINTS, SERVICE, { subsets }));
  const caBundle = Buffer.from(caPem).toString("base64");
  for (const version of SUBRESOURCE_VERSIONS) {
    const spec = {
      group: names.SUBRESOURCES_GROUP,
      version,
      service: { name: SERVICE, namespace: names.SERVICES_NAMESPACE, port: 443 },
      caBundle,
      groupPriorityMinimum: 1000,
      versionPriority: 15,
    };
    const apiService = newObject(API_SERVICES, `${version}.${names.SUBRESOURCES_GROUP}`, { spec });
    await applyObject(store, API_SERVICES, apiService);
  }
  for (const [type, entries] of [
    [MUTATING_WEBHOOKS, [MUTATE]],
    [
      VALIDATING_WEBHOOKS,
      [
        VALIDATE,
        NODE_RESTRICTION,
        NETWORKS,
        LAUNCHER,
        INSTANCETYPE_RULES,
        DATA_VOLUME_SOURCES,
        ...MIGRATION_RULES,
        ...UNSUPPORTED_KINDS,
      ],
    ],
  ] as const) {
    const webhooks = entries.map((webhook) => toWebhook(webhook, address));
    await applyObject(store, type, newObject(type, names.SERVICES_NAMESPACE, { webhooks }));
  }
}
