// SPDX-License-Identifier: Apache-2.0
// What Patchbay keeps in the API server of a standalone machine.
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
  type KubeObject,
  type ResourceType,
} from "@patchbay/api";
import {
  conditionsOf,
  keepManifests,
  keepObject,
  parseManifests,
  readManifests,
} from "@patchbay/manifests";
import type { Files, Store } from "@patchbay/core/ports";

const SERVICE = "virt-api";
const WEBHOOK_TIMEOUT_SECONDS = 10;

type AnyObject = KubeObject & Readonly<Record<string, unknown>>;

function typeOf(apiVersion: string, kind: string, resource: string): ResourceType<AnyObject> {
  const [version = "", group = ""] = apiVersion.split("/").reverse();
  const namespaced = resource === "services";
  return { group, version, kind, resource, namespaced };
}

const CRDS = typeOf(
  "apiextensions.k8s.io/v1",
  "CustomResourceDefinition",
  "customresourcedefinitions",
);
const SERVICES = typeOf("v1", "Service", "services");
const API_SERVICES = typeOf("apiregistration.k8s.io/v1", "APIService", "apiservices");
const MUTATING = typeOf(
  "admissionregistration.k8s.io/v1",
  "MutatingWebhookConfiguration",
  "mutatingwebhookconfigurations",
);
const VALIDATING = typeOf(
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

/** The product's namespace, the accounts of its components, and what they and users may do. */
export async function keepRights(store: Store, files: Files, nodeName: string): Promise<void> {
  await keepManifests(store, parseManifests(await readManifests(files, "standalone"), nodeName));
}

/** The product's kinds. */
export async function keepKinds(store: Store): Promise<void> {
  const definitions = customResourceDefinitions();
  await Promise.all(definitions.map((definition) => keepObject(store, CRDS, definition)));
}

/** The KubeVirt object: the machine's own findings; what a person has set beside them stays. */
export async function keepKubeVirt(store: Store, useEmulation: boolean): Promise<void> {
  const configuration = { developerConfiguration: { useEmulation } };
  const object = newObject(KUBEVIRTS, "kubevirt", { spec: { configuration } });
  await keepObject(store, KUBEVIRTS, object);
}

/** Where virt-api listens and who signed its certificate. */
export interface VirtApiAddress {
  readonly port: number;
  /** PEM. */
  readonly caPem: string;
}

/** A webhook and what it is asked about. */
interface Webhook {
  readonly name: string;
  /** Of virt-api. */
  readonly path: string;
  readonly group: string;
  /** Absent: v1. */
  readonly versions?: readonly string[];
  readonly operations: readonly string[];
  readonly resources: readonly string[];
  /** Whether objects of the cluster are among them. */
  readonly isOfCluster?: boolean;
  /** Whether a write waits for its word, or only gets it where virt-api is there. */
  readonly isNeeded: boolean;
  /** Labels of the objects; absent: all. */
  readonly labels?: Readonly<Record<string, string>>;
}

const OF_VMS = { group: names.KUBEVIRT_GROUP, isNeeded: true };
const BOTH_KINDS = ["virtualmachines", "virtualmachineinstances"];
const WRITES = { ...OF_VMS, operations: ["CREATE", "UPDATE"], resources: BOTH_KINDS };
const MUTATE: Webhook = { name: "mutate", path: "mutate", ...WRITES };
const VALIDATE: Webhook = { name: "validate", path: "validate", ...WRITES };
/** An agent writes only what is of its node. */
const GUARD: Webhook = {
  ...OF_VMS,
  name: "guard",
  path: "validate",
  operations: ["UPDATE"],
  resources: ["virtualmachineinstances/status"],
};

/** Whoever writes a network that nothing can be attached to is told, and never kept from it. */
const NETWORKS: Webhook = {
  name: "networks",
  path: "validate",
  group: NETWORK_ATTACHMENT_DEFINITIONS.group,
  operations: ["CREATE", "UPDATE"],
  resources: [NETWORK_ATTACHMENT_DEFINITIONS.resource],
  isNeeded: false,
};

/** What a launcher's networks are, its node says. */
const LAUNCHER: Webhook = {
  name: "launcher",
  path: "validate",
  operations: ["UPDATE"],
  resources: [PODS.resource],
  group: PODS.group,
  isNeeded: true,
  labels: { [names.KUBEVIRT_LABEL]: names.LAUNCHER_LABEL_VALUE },
};

const JUDGED = { path: "validate", operations: ["CREATE", "UPDATE"], isNeeded: true };

/** Instancetypes and preferences that contradict themselves. */
const SIZES: Webhook = {
  ...JUDGED,
  name: "instancetypes",
  group: names.INSTANCETYPE_GROUP,
  versions: [INSTANCETYPES.version],
  resources: [INSTANCETYPES, CLUSTER_INSTANCETYPES, PREFERENCES, CLUSTER_PREFERENCES].map(
    ({ resource }) => resource,
  ),
  isOfCluster: true,
};

/** DataVolumes with a source that the machine does not have. */
const DATA_VOLUME_SOURCES: Webhook = {
  ...JUDGED,
  name: "data-volumes",
  group: DATA_VOLUMES.group,
  versions: [DATA_VOLUMES.version],
  resources: [DATA_VOLUMES.resource],
};

/** Migrations of VMs that cannot be migrated, and a drain's evictions of launchers. */
const LEAVING: readonly Webhook[] = [
  {
    ...JUDGED,
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
    isNeeded: false,
  },
];

/** Kinds of KubeVirt that nothing acts on: who makes one is told what to do instead. */
const REFUSED: readonly Webhook[] = [
  {
    ...JUDGED,
    name: "refused",
    group: names.KUBEVIRT_GROUP,
    versions: ["*"],
    resources: ["virtualmachineinstancereplicasets"],
  },
  {
    ...JUDGED,
    name: "refused-pools",
    group: names.POOL_GROUP,
    versions: ["*"],
    resources: ["virtualmachinepools"],
  },
  {
    ...JUDGED,
    name: "refused-exports",
    group: names.EXPORT_GROUP,
    versions: ["*"],
    resources: ["virtualmachineexports"],
  },
];

function ruleOf(webhook: Webhook): object {
  const { group, versions = ["v1"], operations, resources, isOfCluster = false } = webhook;
  const scope = isOfCluster ? "*" : "Namespaced";
  return { apiGroups: [group], apiVersions: versions, operations, resources, scope };
}

function printWebhook(webhook: Webhook, address: VirtApiAddress): object {
  const { name, path, isNeeded, labels } = webhook;
  const conditions = conditionsOf(name);
  return {
    name: `${name}.virt-api.patchbay.io`,
    clientConfig: {
      url: `https://127.0.0.1:${String(address.port)}/${path}`,
      caBundle: Buffer.from(address.caPem).toString("base64"),
    },
    rules: [ruleOf(webhook)],
    ...(labels === undefined ? {} : { objectSelector: { matchLabels: labels } }),
    failurePolicy: isNeeded ? "Fail" : "Ignore",
    sideEffects: "None",
    admissionReviewVersions: ["v1"],
    timeoutSeconds: WEBHOOK_TIMEOUT_SECONDS,
    ...(conditions.length === 0 ? {} : { matchConditions: conditions }),
  };
}

/** As the manifests of a cluster have them. */
const SUBRESOURCE_VERSIONS = ["v1", "v1alpha3"] as const;

/** The way from the API server to virt-api: aggregation by a service, admission by URL. */
export async function keepVirtApi(store: Store, address: VirtApiAddress): Promise<void> {
  const { port, caPem } = address;
  const ports = [{ name: "https", port: 443, targetPort: port, protocol: "TCP" }];
  await keepObject(store, SERVICES, newObject(SERVICES, SERVICE, { spec: { ports } }));
  const subsets = [
    {
      addresses: [{ ip: "127.0.0.1" }],
      ports: [{ name: "https", port, protocol: "TCP" }],
    },
  ];
  await keepObject(store, ENDPOINTS, newObject(ENDPOINTS, SERVICE, { subsets }));
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
    await keepObject(store, API_SERVICES, apiService);
  }
  for (const [type, asked] of [
    [MUTATING, [MUTATE]],
    [
      VALIDATING,
      [VALIDATE, GUARD, NETWORKS, LAUNCHER, SIZES, DATA_VOLUME_SOURCES, ...LEAVING, ...REFUSED],
    ],
  ] as const) {
    const webhooks = asked.map((webhook) => printWebhook(webhook, address));
    await keepObject(store, type, newObject(type, names.SERVICES_NAMESPACE, { webhooks }));
  }
}
