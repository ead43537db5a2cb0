// SPDX-License-Identifier: Apache-2.0
// Kind ResourceQuota, and what an object uses of it. Source: Kubernetes pkg/quota/v1/evaluator/core.
import { invalidValue, requiredValue } from "../../meta/causes.ts";
import { qualifiedNameFault } from "../../meta/names.ts";
import type { Cause } from "../../meta/status.ts";
import {
  type Fields,
  asFields,
  asList,
  asText,
  equalJson,
  isFields,
  textAt,
  valueAt,
} from "../../objects/json.ts";
import type { Address, KubeObject } from "../../objects/object.ts";
import { NANO, type Quantity } from "../../shapes/scalar.ts";
import { AGE } from "../../table/age.ts";
import { type Column, type Kind, bucketOf, defineKind } from "../kind.ts";
import { SERVICE } from "../network/service.ts";
import { PERSISTENT_VOLUME_CLAIM } from "../storage/persistent-volume-claim.ts";
import { hasEnded } from "../workload/disruption-budget.ts";
import {
  type Amounts,
  POD,
  addAmounts,
  computePodAmounts,
  computeQosClass,
  parseAmounts,
} from "../workload/pod.ts";
import { objectItems } from "../workload/pod-defaults.ts";

/** Resource of a quota: the length of the namespace's stored objects, without its ResourceQuotas, in bytes of JSON. */
export const STORED_BYTES = "patchbay.io/stored-bytes";

const PODS = bucketOf(POD);
const COMPUTE_RESOURCES = ["cpu", "memory", "ephemeral-storage"];
const HUGE_PAGES = "hugepages-";
const REQUESTS = "requests.";
const NATIVE_DOMAIN = "kubernetes.io/";

const COUNTED_RESOURCES = [
  "configmaps",
  "persistentvolumeclaims",
  "replicationcontrollers",
  "resourcequotas",
  "secrets",
  "services",
];

const SERVICE_RESOURCES = ["services.nodeports", "services.loadbalancers"];

function toCount(count: number): Quantity {
  return { nanos: BigInt(count) * NANO, family: "decimal" };
}

const ONE = toCount(1);

function isExtendedResource(name: string): boolean {
  return name.includes("/") && !name.includes(NATIVE_DOMAIN) && !name.startsWith(REQUESTS);
}

function containerUsage(requests: Amounts, limits: Amounts): Map<string, Quantity> {
  const usage = new Map<string, Quantity>();
  for (const [name, quantity] of requests) {
    const isCompute = COMPUTE_RESOURCES.includes(name) || name.startsWith(HUGE_PAGES);
    if (isCompute) usage.set(name, quantity);
    if (isCompute || isExtendedResource(name)) usage.set(`${REQUESTS}${name}`, quantity);
  }
  for (const [name, quantity] of limits) {
    if (COMPUTE_RESOURCES.includes(name)) usage.set(`limits.${name}`, quantity);
  }
  return usage;
}

function podUsage(pod: KubeObject): Amounts {
  if (hasEnded(pod)) return new Map();
  const spec = asFields(pod["spec"]);
  return containerUsage(computePodAmounts(spec, "requests"), computePodAmounts(spec, "limits")).set(
    "pods",
    ONE,
  );
}

function serviceUsage(service: KubeObject): Amounts {
  const spec = asFields(service["spec"]);
  const ports = objectItems(spec, "ports");
  const usage = new Map<string, Quantity>();
  const isBalanced = spec["type"] === "LoadBalancer";
  if (isBalanced) usage.set("services.loadbalancers", ONE);
  if (!isBalanced && spec["type"] !== "NodePort") return usage;
  const isAutomatic = !isBalanced || spec["allocateLoadBalancerNodePorts"] !== false;
  const nodePorts = isAutomatic ? ports : ports.filter((port) => (port["nodePort"] ?? 0) !== 0);
  return usage.set("services.nodeports", toCount(nodePorts.length));
}

const BETA_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class";

function claimUsage(claim: KubeObject): Amounts {
  const requests = parseAmounts(valueAt(claim, "spec", "resources", "requests"));
  const storage = requests.get("storage") ?? toCount(0);
  const usage = new Map([[`${REQUESTS}storage`, storage]]);
  const storageClass =
    claim.metadata.annotations?.[BETA_CLASS_ANNOTATION] ??
    textAt(claim, "spec", "storageClassName");
  if (storageClass !== "") {
    const prefix = `${storageClass}.storageclass.storage.k8s.io/`;
    usage.set(`${prefix}${REQUESTS}storage`, storage).set(`${prefix}persistentvolumeclaims`, ONE);
  }
  return usage;
}

/** Maximum number of devices of a ResourceClaim. Source: Kubernetes resource.k8s.io AllocationResultsMaxSize. */
const CLAIM_DEVICES_MAX = 32;

function deviceCount(request: Fields): Quantity {
  if (request["allocationMode"] === "All") return toCount(CLAIM_DEVICES_MAX);
  return toCount(Math.max(0, Number(request["count"] ?? 1)));
}

function deviceName(request: Fields): string {
  return `${textAt(request, "deviceClassName")}.deviceclass.resource.k8s.io/devices`;
}

function deviceUsage(claim: KubeObject): Amounts {
  const usage = new Map<string, Quantity>();
  const requests = objectItems(asFields(valueAt(claim, "spec", "devices")), "requests");
  for (const request of requests) {
    const exact = isFields(request["exactly"]) ? [request["exactly"]] : [];
    const worst = new Map<string, Quantity>();
    for (const each of [...exact, ...objectItems(request, "firstAvailable")]) {
      const [name, count] = [deviceName(each), deviceCount(each)];
      if ((worst.get(name)?.nanos ?? 0n) < count.nanos) worst.set(name, count);
    }
    addAmounts(usage, worst);
  }
  return usage;
}

const USAGES: ReadonlyMap<string, (object: KubeObject) => Amounts> = new Map([
  [PODS, podUsage],
  [bucketOf(SERVICE), serviceUsage],
  [bucketOf(PERSISTENT_VOLUME_CLAIM), claimUsage],
  ["resource.k8s.io/resourceclaims", deviceUsage],
]);

export interface CountedObject {
  readonly address: Address;
  readonly view: () => KubeObject;
}

export function computeUsage({ address, view }: CountedObject): Amounts {
  const [group = "", resource = ""] = address.bucket.split("/");
  const qualified = group === "" ? resource : `${resource}.${group}`;
  const usage = new Map([[`count/${qualified}`, ONE]]);
  if (group === "" && COUNTED_RESOURCES.includes(resource)) usage.set(resource, ONE);
  const compute = USAGES.get(address.bucket);
  if (compute !== undefined) addAmounts(usage, compute(view()));
  return usage;
}

interface ScopeRequirement {
  readonly scopeName: string;
  readonly operator: string;
  readonly values: readonly unknown[];
}

export function readScopes(spec: Fields): readonly ScopeRequirement[] {
  const requirements = objectItems(asFields(spec["scopeSelector"]), "matchExpressions");
  return [
    ...asList(spec["scopes"]).map((scope) => {
      return { scopeName: asText(scope), operator: "Exists", values: [] };
    }),
    ...requirements.map((requirement) => ({
      scopeName: textAt(requirement, "scopeName"),
      operator: textAt(requirement, "operator"),
      values: asList(requirement["values"]),
    })),
  ];
}

function matchesPriorityClass(
  pod: KubeObject,
  { operator, values }: Pick<ScopeRequirement, "operator" | "values">,
): boolean {
  const name = textAt(pod, "spec", "priorityClassName");
  if (operator === "In") return name !== "" && values.includes(name);
  if (operator === "NotIn") return !values.includes(name);
  return (name !== "") === (operator === "Exists");
}

function reachesOtherNamespaces(pod: KubeObject): boolean {
  const affinity = asFields(valueAt(pod, "spec", "affinity"));
  const terms = ["podAffinity", "podAntiAffinity"].flatMap((name) => {
    const rules = asFields(affinity[name]);
    const preferred = objectItems(rules, "preferredDuringSchedulingIgnoredDuringExecution");
    return [
      ...objectItems(rules, "requiredDuringSchedulingIgnoredDuringExecution"),
      ...preferred.map((term) => asFields(term["podAffinityTerm"])),
    ];
  });
  return terms.some(
    ({ namespaces, namespaceSelector }) =>
      asList(namespaces).length > 0 || isFields(namespaceSelector),
  );
}

function hasDeadline(pod: KubeObject): boolean {
  return valueAt(pod, "spec", "activeDeadlineSeconds") !== undefined;
}

function isBestEffort(pod: KubeObject): boolean {
  return computeQosClass(asFields(pod["spec"])) === "BestEffort";
}

const SCOPES: ReadonlyMap<string, (pod: KubeObject, requirement: ScopeRequirement) => boolean> =
  new Map([
    ["Terminating", hasDeadline],
    ["NotTerminating", (pod) => !hasDeadline(pod)],
    ["BestEffort", isBestEffort],
    ["NotBestEffort", (pod) => !isBestEffort(pod)],
    ["PriorityClass", matchesPriorityClass],
    ["CrossNamespacePodAffinity", reachesOtherNamespaces],
  ]);

export function matchesScopes(
  scopes: readonly ScopeRequirement[],
  { address, view }: CountedObject,
): boolean {
  if (scopes.length === 0) return true;
  if (address.bucket !== PODS) return false;
  return scopes.every((scope) => SCOPES.get(scope.scopeName)?.(view(), scope) === true);
}

const SPECIFIED_RESOURCES = ["", REQUESTS, "limits."].flatMap((prefix) => [
  `${prefix}cpu`,
  `${prefix}memory`,
]);

export function describeUnspecified(pod: KubeObject, hard: Amounts): string {
  const spec = asFields(pod["spec"]);
  const usages = [...objectItems(spec, "containers"), ...objectItems(spec, "initContainers")].map(
    (container) => {
      const amounts = (list: string): Amounts =>
        parseAmounts(valueAt(container, "resources", list));
      const usage = containerUsage(amounts("requests"), amounts("limits"));
      return { name: textAt(container, "name"), usage };
    },
  );
  return SPECIFIED_RESOURCES.filter((resource) => hard.has(resource))
    .toSorted()
    .flatMap((resource) => {
      const names = usages.filter(({ usage }) => !usage.has(resource)).map(({ name }) => name);
      return names.length === 0 ? [] : [`${resource} for: ${names.toSorted().join(",")}`];
    })
    .join("; ");
}

const STANDARD_RESOURCES: ReadonlySet<string> = new Set([
  ...COUNTED_RESOURCES,
  ...SERVICE_RESOURCES,
  ...["", REQUESTS, "limits."].flatMap((prefix) =>
    COMPUTE_RESOURCES.map((name) => `${prefix}${name}`),
  ),
  "pods",
  `${REQUESTS}storage`,
]);

function isStandardResource(name: string): boolean {
  const isHugePages = name.startsWith(HUGE_PAGES) || name.startsWith(`${REQUESTS}${HUGE_PAGES}`);
  return STANDARD_RESOURCES.has(name) || isHugePages;
}

function nameCauses(name: string): Cause[] {
  const field = `spec.hard[${name}]`;
  const fault = qualifiedNameFault(name);
  if (fault !== undefined) return [invalidValue(field, name, fault)];
  const isKnown = name.includes("/") || isStandardResource(name);
  return isKnown ? [] : [invalidValue(field, name, "must be a standard resource for quota")];
}

function isWhole(name: string): boolean {
  const counts = ["pods", ...COUNTED_RESOURCES, ...SERVICE_RESOURCES];
  return counts.includes(name) || isExtendedResource(name);
}

function hardCauses(spec: Fields): Cause[] {
  return [...parseAmounts(spec["hard"])].flatMap(([name, { nanos }]) => {
    const field = `spec.hard[${name}]`;
    const text = asText(valueAt(spec, "hard", name));
    const faults = [
      ...(nanos < 0n ? ["must be greater than or equal to 0"] : []),
      ...(isWhole(name) && nanos % NANO !== 0n ? ["must be an integer"] : []),
    ];
    return [...nameCauses(name), ...faults.map((fault) => invalidValue(field, text, fault))];
  });
}

function isScopeValid(scope: string, resource: string): boolean {
  if (!isStandardResource(resource) || resource === "pods") return true;
  return scope !== "BestEffort" && SPECIFIED_RESOURCES.includes(resource);
}

function scopeCauses(spec: Fields): Cause[] {
  const names = asList(spec["scopes"]).map(asText);
  const resources = Object.keys(asFields(spec["hard"]));
  const cause = (fault: string): Cause => invalidValue("spec.scopes", names, fault);
  const conflicts = ["BestEffort", "Terminating"].filter(
    (name) => names.includes(name) && names.includes(`Not${name}`),
  );
  return [
    ...names.filter((name) => !SCOPES.has(name)).map(() => cause("unsupported scope")),
    ...names
      .filter((name) => !resources.every((resource) => isScopeValid(name, resource)))
      .map(() => cause("unsupported scope applied to resource")),
    ...conflicts.map(() => cause("conflicting scopes")),
  ];
}

const EXISTS_ONLY =
  "must be 'Exist' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";

function operatorCauses({ scopeName, operator, values }: ScopeRequirement, path: string): Cause[] {
  const onlyExists = scopeName !== "PriorityClass" && SCOPES.has(scopeName);
  const causes =
    onlyExists && operator !== "Exists"
      ? [invalidValue(`${path}.operator`, operator, EXISTS_ONLY)]
      : [];
  if (["In", "NotIn"].includes(operator)) {
    const detail =
      "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
    return values.length > 0 ? causes : [...causes, requiredValue(`${path}.values`, detail)];
  }
  if (["Exists", "DoesNotExist"].includes(operator)) {
    const fault =
      "must be no value when `operator` is 'Exists' or 'DoesNotExist' for scope selector";
    return values.length === 0
      ? causes
      : [...causes, invalidValue(`${path}.values`, values, fault)];
  }
  return [...causes, invalidValue(`${path}.operator`, operator, "not a valid selector operator")];
}

function selectorCauses(spec: Fields): Cause[] {
  const path = "spec.scopeSelector.matchExpressions";
  const resources = Object.keys(asFields(spec["hard"]));
  return readScopes({ scopeSelector: spec["scopeSelector"] }).flatMap((requirement) => {
    const { scopeName } = requirement;
    const cause = (fault: string): Cause => invalidValue(`${path}.scopeName`, scopeName, fault);
    return [
      ...(SCOPES.has(scopeName) ? [] : [cause("unsupported scope")]),
      ...(resources.every((resource) => isScopeValid(scopeName, resource))
        ? []
        : [cause("unsupported scope applied to resource")]),
      ...operatorCauses(requirement, path),
    ];
  });
}

function validateUpdate(quota: KubeObject, current: KubeObject): Cause[] {
  return ["scopes", "scopeSelector"]
    .map((key) => [key, valueAt(quota, "spec", key), valueAt(current, "spec", key)] as const)
    .filter(([, value, currentValue]) => !equalJson(value, currentValue))
    .map(([key, value]) => invalidValue(`spec.${key}`, value, "field is immutable"));
}

function amountColumn(name: string, isShown: (resource: string) => boolean): Column {
  const cell: Column["cell"] = (quota) => {
    const { hard, used } = asFields(quota["status"]);
    return Object.keys(asFields(hard))
      .filter(isShown)
      .toSorted()
      .map((resource) => {
        const [amount = "0", limit] = [used, hard].map((map) => valueAt(map, resource));
        return `${resource}: ${asText(amount)}/${asText(limit)}`;
      })
      .join(", ");
  };
  return { name, type: "string", cell };
}

export const RESOURCE_QUOTA: Kind = defineKind({
  group: "",
  version: "v1",
  resource: "resourcequotas",
  kind: "ResourceQuota",
  shortNames: ["quota"],
  strategy: {
    hasStatus: true,
    validate: (quota) => {
      const spec = asFields(quota["spec"]);
      return [...hardCauses(spec), ...scopeCauses(spec), ...selectorCauses(spec)];
    },
    validateUpdate,
    columns: [
      AGE,
      amountColumn("Request", (resource) => !resource.startsWith("limits.")),
      amountColumn("Limit", (resource) => resource.startsWith("limits.")),
    ],
  },
});
