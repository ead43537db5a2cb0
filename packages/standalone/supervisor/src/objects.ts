// SPDX-License-Identifier: Apache-2.0
// Writes objects that Patchbay maintains in the API server of a standalone machine.
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

export async function ensureRights(store: Store, files: Files, nodeName: string): Promise<void> {
  await applyManifests(store, parseManifests(await readManifests(files, "standalone"), nodeName));
}

export async function ensureKinds(store: Store): Promise<void> {
  const definitions = customResourceDefinitions();
  await Promise.all(definitions.map((definition) => applyObject(store, CRDS, definition)));
}

/** Writes to the KubeVirt object whether guests run without KVM. Preserves users' settings. */
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
  /** API versions of `resources`. Defaults to v1. */
  readonly versions?: readonly string[];
  readonly operations: readonly string[];
  readonly resources: readonly string[];
  readonly isClusterScoped?: boolean;
  readonly isRequired: boolean;
  /** Labels of the objects for which the webhook is called; unset for all objects. */
  readonly labels?: Readonly<Record<string, string>>;
}

const REQUIRED_VM_WEBHOOK = { group: names.KUBEVIRT_GROUP, isRequired: true };
const VM_RESOURCES = ["virtualmachines", "virtualmachineinstances"];
const VM_WRITES = {
  ...REQUIRED_VM_WEBHOOK,
  operations: ["CREATE", "UPDATE"],
  resources: VM_RESOURCES,
};
const MUTATION_WEBHOOK: Webhook = { name: "mutate", path: "mutate", ...VM_WRITES };
const VALIDATION_WEBHOOK: Webhook = { name: "validate", path: "validate", ...VM_WRITES };
/** Webhook that rejects status writes of virt-handler to VMIs of other nodes. */
const NODE_RESTRICTION_WEBHOOK: Webhook = {
  ...REQUIRED_VM_WEBHOOK,
  name: "guard",
  path: "validate",
  operations: ["UPDATE"],
  resources: ["virtualmachineinstances/status"],
};

/** Webhook that only returns warnings, so the API server accepts the write even if the webhook fails. */
const NETWORK_WEBHOOK: Webhook = {
  name: "networks",
  path: "validate",
  group: NETWORK_ATTACHMENT_DEFINITIONS.group,
  operations: ["CREATE", "UPDATE"],
  resources: [NETWORK_ATTACHMENT_DEFINITIONS.resource],
  isRequired: false,
};

const VALIDATED_WRITES = { path: "validate", operations: ["CREATE", "UPDATE"], isRequired: true };

/** Webhook that checks writes of launcher pods, because only the node of a pod may report the pod's networks. */
const LAUNCHER_WEBHOOK: Webhook = {
  ...VALIDATED_WRITES,
  name: "launcher",
  resources: [PODS.resource],
  group: PODS.group,
  labels: { [names.KUBEVIRT_LABEL]: names.LAUNCHER_LABEL_VALUE },
};

const INSTANCETYPE_WEBHOOK: Webhook = {
  ...VALIDATED_WRITES,
  name: "instancetypes",
  group: names.INSTANCETYPE_GROUP,
  versions: [INSTANCETYPES.version],
  resources: [INSTANCETYPES, CLUSTER_INSTANCETYPES, PREFERENCES, CLUSTER_PREFERENCES].map(
    ({ resource }) => resource,
  ),
  isClusterScoped: true,
};

const DATA_VOLUME_WEBHOOK: Webhook = {
  ...VALIDATED_WRITES,
  name: "data-volumes",
  group: DATA_VOLUMES.group,
  versions: [DATA_VOLUMES.version],
  resources: [DATA_VOLUMES.resource],
};

const MIGRATION_WEBHOOKS: readonly Webhook[] = [
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

const UNSUPPORTED_KIND_WEBHOOKS: readonly Webhook[] = [
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

/** Connects the API server to virt-api: through a Service for aggregated requests, and through URLs for webhooks. */
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
    [MUTATING_WEBHOOKS, [MUTATION_WEBHOOK]],
    [
      VALIDATING_WEBHOOKS,
      [
        VALIDATION_WEBHOOK,
        NODE_RESTRICTION_WEBHOOK,
        NETWORK_WEBHOOK,
        LAUNCHER_WEBHOOK,
        INSTANCETYPE_WEBHOOK,
        DATA_VOLUME_WEBHOOK,
        ...MIGRATION_WEBHOOKS,
        ...UNSUPPORTED_KIND_WEBHOOKS,
      ],
    ],
  ] as const) {
    const webhooks = entries.map((webhook) => toWebhook(webhook, address));
    await applyObject(store, type, newObject(type, names.SERVICES_NAMESPACE, { webhooks }));
  }
}
