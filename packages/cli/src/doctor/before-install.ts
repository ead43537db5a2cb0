// SPDX-License-Identifier: Apache-2.0
// Collects the facts about a cluster on which Patchbay is to be installed. Writes only as dry runs.
import {
  API_SERVICES,
  apiVersionOf,
  CONFIG_MAPS,
  DAEMON_SETS,
  ENDPOINT_SLICES,
  MUTATING_WEBHOOKS,
  names,
  NAMESPACES,
  NODES,
  PODS,
  VALIDATING_WEBHOOKS,
  type ResourceType,
} from "@patchbay/api";
import { isJsonObject, parseJson } from "@patchbay/api/json";
import {
  SERVICE_NAME_LABEL,
  type ApiService,
  type ConfigMap,
  type KubeNode,
  type KubeObject,
  type Namespace,
  type Pod,
  type WebhookConfiguration,
} from "@patchbay/api/kubernetes";
import { isAppError, messageOf } from "@patchbay/base";
import type { Store } from "@patchbay/core/interfaces";
import { matchesLabels } from "@patchbay/core/policies";
import {
  DEFINITIONS,
  describeObject,
  findCompeting,
  findType,
  install,
  isPatchbayObject,
  isWorkload,
  listNamesakes,
  servesVms,
  type InstallSettings,
  type ObjectResult,
} from "@patchbay/manifests";
import type { KubeClient } from "@patchbay/kube";
import { list, observe } from "./collect.ts";
import type { Observed } from "./finding.ts";

export interface ClusterDefinition extends KubeObject {
  readonly spec: {
    readonly group: string;
    readonly names: { readonly plural: string };
    readonly versions: readonly { readonly name: string; readonly served: boolean }[];
  };
}

export interface PodOwner extends KubeObject {
  readonly spec: {
    readonly template: {
      readonly metadata?: { readonly labels?: Readonly<Record<string, string>> };
      readonly spec: Pod["spec"];
    };
  };
  readonly status?: { readonly desiredNumberScheduled?: number };
}

export interface WantedInstallation {
  readonly objects: readonly KubeObject[];
  readonly settings: InstallSettings;
}

/** A webhook of another component that must accept an object of the installation. */
export interface BlockingWebhook {
  readonly name: string;
  readonly service: string;
  /** Set if the webhook's matchConditions, which are not evaluated, may exclude all objects of the installation. */
  readonly isConditional?: true;
  readonly isReady: Observed<boolean>;
}

export interface Refusal {
  readonly name: string;
  readonly reason: string;
}

export interface InstallFacts extends WantedInstallation {
  /** Whether the credentials are those of this pod, for example of a Helm hook, and not of the installing user. */
  readonly isPodAccount: boolean;
  readonly serverVersion: Observed<string>;
  readonly groups: Observed<readonly string[]>;
  /** ConfigMap with the CA of the front proxy; undefined if the aggregation layer is not configured. */
  readonly frontProxy: Observed<ConfigMap | undefined>;
  readonly apiServices: Observed<readonly ApiService[]>;
  readonly definitions: Observed<readonly ClusterDefinition[]>;
  readonly webhooks: Observed<readonly WebhookConfiguration[]>;
  readonly namesakes: Observed<readonly KubeObject[]>;
  readonly blockingWebhooks: Observed<readonly BlockingWebhook[]>;
  /** Rights that the user lacks, for example `create deployments.apps`. */
  readonly missingRights: Observed<readonly string[]>;
  /** Patchbay's namespace; undefined if it does not exist yet. */
  readonly namespace: Observed<Namespace | undefined>;
  /** Pods of the agents that the server refuses; unset if the namespace does not exist yet. */
  readonly refusedPods?: Observed<readonly Refusal[]>;
  readonly plan: Observed<InstallPlan>;
  readonly nodes: Observed<readonly KubeNode[]>;
  readonly daemonSets: Observed<readonly PodOwner[]>;
}

export interface InstallPlan {
  readonly outcomes: readonly ObjectResult[];
  readonly refusals: readonly Refusal[];
}

// The casts are safe, because the types describe more fields of the same objects.
const DETAILED_DEFINITIONS = DEFINITIONS as ResourceType<ClusterDefinition>;
const DETAILED_DAEMON_SETS = DAEMON_SETS as ResourceType<PodOwner>;

interface SelfAccessReview extends KubeObject {
  readonly spec: { readonly resourceAttributes: Readonly<Record<string, string>> };
  readonly status?: { readonly allowed?: boolean };
}

/** Source: Kubernetes authorization.k8s.io/v1. */
const SELF_ACCESS_REVIEWS: ResourceType<SelfAccessReview> = {
  group: "authorization.k8s.io",
  version: "v1",
  resource: "selfsubjectaccessreviews",
  kind: "SelfSubjectAccessReview",
  namespaced: false,
};
/** Source: Kubernetes "Configure the Aggregation Layer". */
const FRONT_PROXY = { namespace: "kube-system", name: "extension-apiserver-authentication" };
const VERBS: readonly string[] = ["get", "create", "update"];
const NOT_THE_INSTALLER =
  "this pod's account does not install Patchbay; `patchbay install` checks this with yours";

async function planInstallation(
  store: Store,
  objects: readonly KubeObject[],
): Promise<InstallPlan> {
  const outcomes: ObjectResult[] = [];
  const refusals: Refusal[] = [];
  await install(store, {
    objects,
    dryRun: true,
    report: (outcome) => outcomes.push(outcome),
    reportRefusal: (name, error) => refusals.push({ name, reason: messageOf(error) }),
  });
  return { outcomes, refusals };
}

async function isAllowed(
  store: Pick<Store, "create">,
  resourceAttributes: Readonly<Record<string, string>>,
): Promise<boolean> {
  const { status } = await store.create(SELF_ACCESS_REVIEWS, {
    apiVersion: apiVersionOf(SELF_ACCESS_REVIEWS),
    kind: SELF_ACCESS_REVIEWS.kind,
    metadata: { name: "" },
    spec: { resourceAttributes },
  });
  return status?.allowed === true;
}

export async function listMissingRights(
  store: Pick<Store, "create">,
  objects: readonly KubeObject[],
): Promise<readonly string[]> {
  if (await isAllowed(store, { verb: "*", group: "*", resource: "*" })) return [];
  const missing: string[] = [];
  for (const { group, resource } of new Set(objects.map(findType))) {
    for (const verb of VERBS) {
      if (await isAllowed(store, { verb, group, resource })) continue;
      missing.push(`${verb} ${group === "" ? resource : `${resource}.${group}`}`);
    }
  }
  return missing;
}

interface Candidate {
  readonly type: ResourceType<KubeObject>;
  readonly labels: Readonly<Record<string, string>>;
}

export function isPodOwner(object: KubeObject): object is PodOwner {
  return isWorkload(object);
}

function listCandidates(objects: readonly KubeObject[]): readonly Candidate[] {
  return objects.flatMap((object) => {
    const { labels = {}, namespace } = object.metadata;
    if (namespace === undefined) return [];
    const own = { type: findType(object), labels };
    const podLabels = isPodOwner(object) ? object.spec.template.metadata?.labels : undefined;
    return podLabels === undefined ? [own] : [own, { type: PODS, labels: podLabels }];
  });
}

function includesValue(values: readonly string[] | undefined, wanted: string): boolean {
  return values?.some((value) => value === "*" || value === wanted) === true;
}

type Webhook = NonNullable<WebhookConfiguration["webhooks"]>[number];

function covers(
  { rules = [], objectSelector = {} }: Webhook,
  { type, labels }: Candidate,
): boolean {
  const isCovered = rules.some(
    ({ apiGroups, operations, resources, scope }) =>
      scope !== "Cluster" && // All candidates have a namespace.
      includesValue(apiGroups, type.group) &&
      includesValue(operations, "CREATE") &&
      (includesValue(resources, type.resource) || resources?.includes("*/*") === true),
  );
  return isCovered && matchesLabels(objectSelector, labels);
}

/** Returns the webhooks of others whose failure makes the server refuse an object of the installation. */
export function findBlockingWebhooks(
  configurations: readonly WebhookConfiguration[],
  objects: readonly KubeObject[],
  namespaceLabels: Readonly<Record<string, string>>,
): readonly Omit<BlockingWebhook, "isReady">[] {
  const candidates = listCandidates(objects);
  return configurations
    .filter((configuration) => !isPatchbayObject(configuration))
    .flatMap((configuration) =>
      (configuration.webhooks ?? []).flatMap((webhook) => {
        const { service } = webhook.clientConfig;
        const isBlocking =
          webhook.failurePolicy !== "Ignore" &&
          matchesLabels(webhook.namespaceSelector ?? {}, namespaceLabels) &&
          candidates.some((candidate) => covers(webhook, candidate));
        if (service === undefined || !isBlocking) return [];
        const name = `${configuration.kind} ${configuration.metadata.name}, ${webhook.name}`;
        const isConditional = (webhook.matchConditions ?? []).length > 0;
        return [
          {
            name,
            service: `${service.namespace}/${service.name}`,
            ...(isConditional && { isConditional }),
          },
        ];
      }),
    );
}

async function isServiceReady(store: Pick<Store, "list">, service: string): Promise<boolean> {
  const [namespace = "", name = ""] = service.split("/");
  const labelSelector = `${SERVICE_NAME_LABEL}=${name}`;
  const { items } = await store.list(ENDPOINT_SLICES, { namespace, labelSelector });
  return items.some(({ endpoints = [] }) =>
    endpoints.some(({ conditions }) => conditions?.ready !== false),
  );
}

/** Lists the agents whose pods the server refuses, for example because of the namespace's pod security level. */
async function listRefusedPods(
  store: Pick<Store, "create">,
  objects: readonly KubeObject[],
): Promise<readonly Refusal[]> {
  const refusals: Refusal[] = [];
  for (const object of objects) {
    if (object.kind !== DAEMON_SETS.kind || !isPodOwner(object)) continue;
    const { metadata, spec } = object.spec.template;
    // A missing account or priority class would be another reason for a refusal.
    const own = { serviceAccountName: "default", priorityClassName: "" };
    const { name, namespace } = object.metadata;
    const pod: Pod = {
      apiVersion: apiVersionOf(PODS),
      kind: PODS.kind,
      metadata: {
        ...metadata,
        name: `${name}-check`,
        ...(namespace !== undefined && { namespace }),
      },
      spec: { ...spec, ...own, automountServiceAccountToken: false },
    };
    await store.create(PODS, pod, { dryRun: true }).catch((error: unknown) => {
      const reason = messageOf(error);
      const isPolicy = /violates PodSecurity|admission webhook|failed calling webhook/.test(reason);
      if (!isPolicy) throw error;
      refusals.push({ name: describeObject(object), reason });
    });
  }
  return refusals;
}

async function readGroups(client: Pick<KubeClient, "requestRaw">): Promise<readonly string[]> {
  const body = parseJson((await client.requestRaw({ method: "GET", path: "/apis" })).text);
  const groups: unknown = isJsonObject(body) ? body["groups"] : [];
  return Array.isArray(groups) ? groups.filter(isJsonObject).map(({ name }) => String(name)) : [];
}

async function readVersion(client: Pick<KubeClient, "requestRaw">): Promise<string> {
  const body = parseJson((await client.requestRaw({ method: "GET", path: "/version" })).text);
  return isJsonObject(body) ? String(body["gitVersion"]) : "";
}

type Client = Pick<KubeClient, "requestRaw" | "store">;

async function listWebhooks(client: Client): Promise<InstallFacts["webhooks"]> {
  const [mutating, validating] = await Promise.all([
    list({ client }, MUTATING_WEBHOOKS),
    list({ client }, VALIDATING_WEBHOOKS),
  ]);
  if ("failure" in mutating) return mutating;
  if ("failure" in validating) return validating;
  const ofKind = (kind: string) => (each: WebhookConfiguration) => ({ ...each, kind });
  return {
    value: [
      ...mutating.value.map(ofKind(MUTATING_WEBHOOKS.kind)),
      ...validating.value.map(ofKind(VALIDATING_WEBHOOKS.kind)),
    ],
  };
}

async function observeBlockingWebhooks(
  { store }: Pick<Client, "store">,
  { webhooks, namespace, objects }: Pick<InstallFacts, "webhooks" | "namespace" | "objects">,
): Promise<InstallFacts["blockingWebhooks"]> {
  if ("failure" in webhooks) return webhooks;
  const existing = "value" in namespace ? namespace.value?.metadata.labels : {};
  const manifest = objects.find(
    ({ kind, metadata }) => kind === NAMESPACES.kind && metadata.name === names.SERVICES_NAMESPACE,
  );
  const labels = {
    "kubernetes.io/metadata.name": names.SERVICES_NAMESPACE,
    ...existing,
    ...manifest?.metadata.labels,
  };
  const found = findBlockingWebhooks(webhooks.value, objects, labels);
  const value = found.map(async (webhook) => ({
    ...webhook,
    isReady: await observe(isServiceReady(store, webhook.service)),
  }));
  return { value: await Promise.all(value) };
}

export function competingObjects(
  facts: Pick<InstallFacts, "objects" | "definitions" | "apiServices" | "webhooks">,
): Observed<readonly KubeObject[]> {
  const { objects, definitions, apiServices, webhooks } = facts;
  if (!servesVms(objects)) return { value: [] };
  if ("failure" in definitions) return definitions;
  if ("failure" in apiServices) return apiServices;
  if ("failure" in webhooks) return webhooks;
  return {
    value: findCompeting({
      definitions: definitions.value.map((each) => ({ ...each, kind: DEFINITIONS.kind })),
      services: apiServices.value.map((each) => ({ ...each, kind: API_SERVICES.kind })),
      webhooks: webhooks.value,
    }),
  };
}

async function observePlan(
  store: Store,
  objects: readonly KubeObject[],
): Promise<Observed<InstallPlan>> {
  try {
    return { value: await planInstallation(store, objects) };
  } catch (error) {
    const reason = isAppError(error, "INSTALL_NOT_OURS")
      ? "not tried, because of the objects of another installation"
      : messageOf(error);
    return { failure: reason };
  }
}

export async function collectInstallFacts(
  client: Client,
  wanted: WantedInstallation,
  isPodAccount: boolean,
): Promise<InstallFacts> {
  const { store } = client;
  const { objects } = wanted;
  const unobserved = { failure: NOT_THE_INSTALLER };
  const webhooks = await listWebhooks(client);
  const namespace = await observe(store.find(NAMESPACES, { name: names.SERVICES_NAMESPACE }));
  const hasNamespace = "value" in namespace && namespace.value !== undefined;
  // Helm creates the namespace before its hooks run.
  const created = isPodAccount ? objects.filter(({ kind }) => kind !== NAMESPACES.kind) : objects;
  return {
    ...wanted,
    isPodAccount,
    serverVersion: await observe(readVersion(client)),
    groups: await observe(readGroups(client)),
    frontProxy: await observe(store.find(CONFIG_MAPS, FRONT_PROXY)),
    apiServices: await list({ client }, API_SERVICES),
    definitions: await list({ client }, DETAILED_DEFINITIONS),
    webhooks,
    namesakes: await observe(listNamesakes(store, created)),
    blockingWebhooks: await observeBlockingWebhooks(client, { webhooks, namespace, objects }),
    missingRights: isPodAccount ? unobserved : await observe(listMissingRights(store, objects)),
    namespace,
    ...(hasNamespace && { refusedPods: await observe(listRefusedPods(store, objects)) }),
    plan: isPodAccount ? unobserved : await observePlan(store, objects),
    nodes: await list({ client }, NODES),
    daemonSets: await list({ client }, DETAILED_DAEMON_SETS),
  };
}
