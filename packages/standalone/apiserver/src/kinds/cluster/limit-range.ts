// SPDX-License-Identifier: Apache-2.0
// Kind LimitRange, its defaults for containers, and its limits. Source: Kubernetes LimitRanger admission.
import { duplicateValue, forbiddenValue, invalidValue, requiredValue } from "../../meta/causes.ts";
import { qualifiedNameFault } from "../../meta/names.ts";
import type { Cause } from "../../meta/status.ts";
import { type Fields, asFields, asText, isFields, textAt, valueAt } from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import { NANO, type Quantity, printQuantity } from "../../shapes/scalar.ts";
import { column } from "../store-only/store-only-kind.ts";
import { type Kind, defineKind } from "../kind.ts";
import { type Amounts, computePodAmounts, parseAmounts } from "../workload/pod.ts";
import { objectItems } from "../workload/pod-defaults.ts";

const ANNOTATION = "kubernetes.io/limit-ranger";
const CLAIM = "PersistentVolumeClaim";

const FAULTS_MAX = 8;

export function readLimits(range: KubeObject): readonly Fields[] {
  return objectItems(asFields(range["spec"]), "limits");
}

function setMissing(container: Fields, list: string, defaults: Fields): readonly string[] {
  const resources = asFields(container["resources"]);
  const amounts = asFields(resources[list]);
  const missing = Object.keys(defaults).filter((name) => amounts[name] === undefined);
  if (missing.length > 0) {
    const added = Object.fromEntries(missing.map((name) => [name, defaults[name]]));
    container["resources"] = { ...resources, [list]: { ...amounts, ...added } };
  }
  return missing.toSorted();
}

const DEFAULT_FIELDS = [
  { word: "request", list: "requests", key: "defaultRequest" },
  { word: "limit", list: "limits", key: "default" },
];

function setDefaults(container: Fields, noun: string, limit: Fields): readonly string[] {
  return DEFAULT_FIELDS.flatMap(({ word, list, key }) => {
    const names = setMissing(container, list, asFields(limit[key]));
    const target = `${noun} ${textAt(container, "name")}`;
    return names.length === 0 ? [] : [`${names.join(", ")} ${word} for ${target}`];
  });
}

export function setContainerDefaults(pod: KubeObject, limits: readonly Fields[]): void {
  const spec = asFields(pod["spec"]);
  const [containers, initContainers] = [
    objectItems(spec, "containers"),
    objectItems(spec, "initContainers"),
  ];
  const texts = limits
    .filter(({ type }) => type === "Container")
    .flatMap((limit) => [
      ...containers.flatMap((each) => setDefaults(each, "container", limit)),
      ...initContainers.flatMap((each) => setDefaults(each, "init container", limit)),
    ]);
  if (texts.length === 0) return;
  const text = `LimitRanger plugin set: ${texts.join("; ")}`;
  pod.metadata.annotations = { ...pod.metadata.annotations, [ANNOTATION]: text };
}

interface LimitedAmounts {
  readonly type: string;
  readonly requests: Amounts;
  readonly limits: Amounts;
}

type Judge = (bound: Quantity, name: string, amounts: LimitedAmounts) => string | undefined;

function describeBound(word: string, name: string, type: string, bound: Quantity): string {
  return `${word} ${name} usage per ${type} is ${printQuantity(bound)}`;
}

const judgeMinimum: Judge = (bound, name, { type, requests, limits }) => {
  const text = describeBound("minimum", name, type, bound);
  const [request, limit] = [requests.get(name), limits.get(name)];
  if (request === undefined) return `${text}.  No request is specified`;
  if (request.nanos < bound.nanos) return `${text}, but request is ${printQuantity(request)}`;
  if (limit === undefined || limit.nanos >= bound.nanos) return undefined;
  return `${text}, but limit is ${printQuantity(limit)}`;
};

const judgeMaximum: Judge = (bound, name, { type, requests, limits }) => {
  const text = describeBound("maximum", name, type, bound);
  const [request, limit] = [requests.get(name), limits.get(name)];
  if (type !== CLAIM && limit === undefined) return `${text}.  No limit is specified`;
  if (type === CLAIM && request === undefined) return `${text}.  No request is specified`;
  if (limit !== undefined && limit.nanos > bound.nanos)
    return `${text}, but limit is ${printQuantity(limit)}`;
  if (request === undefined || request.nanos <= bound.nanos) return undefined;
  return `${text}, but request is ${printQuantity(request)}`;
};

const judgeRatio: Judge = (bound, name, { type, requests, limits }) => {
  const text = `${name} max limit to request ratio per ${type} is ${printQuantity(bound)}`;
  const [request, limit] = [requests.get(name)?.nanos ?? 0n, limits.get(name)?.nanos ?? 0n];
  if (request === 0n) return `${text}, but no request is specified or request is 0`;
  if (limit === 0n) return `${text}, but no limit is specified or limit is 0`;
  if (limit * NANO <= bound.nanos * request) return undefined;
  return `${text}, but provided ratio is ${(Number(limit) / Number(request)).toFixed(6)}`;
};

const JUDGES: readonly (readonly [key: string, judge: Judge])[] = [
  ["min", judgeMinimum],
  ["max", judgeMaximum],
  ["maxLimitRequestRatio", judgeRatio],
];

function judgeAmounts(limit: Fields, amounts: LimitedAmounts): readonly string[] {
  return JUDGES.flatMap(([key, judge]) =>
    [...parseAmounts(limit[key])].flatMap(([name, bound]) => judge(bound, name, amounts) ?? []),
  );
}

function toLimitedAmounts(type: string, object: Fields): LimitedAmounts {
  const amounts = (list: string): Amounts => parseAmounts(valueAt(object, "resources", list));
  return { type, requests: amounts("requests"), limits: amounts("limits") };
}

function listPodAmounts(pod: KubeObject): readonly LimitedAmounts[] {
  const spec = asFields(pod["spec"]);
  const containers = [...objectItems(spec, "containers"), ...objectItems(spec, "initContainers")];
  const requests = computePodAmounts(spec, "requests");
  return [
    ...containers.map((container) => toLimitedAmounts("Container", container)),
    { type: "Pod", requests, limits: computePodAmounts(spec, "limits") },
  ];
}

function describeFaults(
  allAmounts: readonly LimitedAmounts[],
  limits: readonly Fields[],
): string | undefined {
  const faults = new Set<string>();
  for (const limit of limits) {
    for (const amounts of allAmounts.filter(({ type }) => type === limit["type"])) {
      for (const fault of judgeAmounts(limit, amounts)) faults.add(fault);
      if (faults.size >= FAULTS_MAX) break;
    }
  }
  const [first, ...others] = [...faults].slice(0, FAULTS_MAX);
  return first === undefined || others.length === 0 ? first : `[${[first, ...others].join(", ")}]`;
}

export function describePodFaults(pod: KubeObject, limits: readonly Fields[]): string | undefined {
  return describeFaults(listPodAmounts(pod), limits);
}

export function describeClaimFaults(
  claim: KubeObject,
  limits: readonly Fields[],
): string | undefined {
  const { requests } = toLimitedAmounts(CLAIM, asFields(claim["spec"]));
  return describeFaults([{ type: CLAIM, requests, limits: new Map() }], limits);
}

function defaultLimit(limit: Fields): void {
  if (limit["type"] !== "Container") return;
  const defaultLimits = { ...asFields(limit["max"]), ...asFields(limit["default"]) };
  const minimums = asFields(limit["min"]);
  const defaultRequests = { ...minimums, ...defaultLimits, ...asFields(limit["defaultRequest"]) };
  if (Object.keys(defaultLimits).length > 0) limit["default"] = defaultLimits;
  if (Object.keys(defaultRequests).length > 0) limit["defaultRequest"] = defaultRequests;
}

const ORDERED_FIELDS = [
  ["min", "min value"],
  ["defaultRequest", "default request value"],
  ["default", "default value"],
  ["max", "max value"],
] as const;

function orderCauses(limit: Fields, path: string): Cause[] {
  const fields = ORDERED_FIELDS.map(([key, noun]) => ({
    key,
    noun,
    amounts: parseAmounts(limit[key]),
  }));
  return fields.flatMap((lower, index) =>
    fields.slice(index + 1).flatMap((upper) =>
      [...lower.amounts].flatMap(([name, amount]) => {
        const upperAmount = upper.amounts.get(name);
        if (upperAmount === undefined || amount.nanos <= upperAmount.nanos) return [];
        const [text, upperText] = [printQuantity(amount), printQuantity(upperAmount)];
        const fault = `${lower.noun} ${text} is greater than ${upper.noun} ${upperText}`;
        const isOfUpper = lower.key === "min" && upper.key !== "max";
        const [key, value] = isOfUpper ? [upper.key, upperText] : [lower.key, text];
        return [invalidValue(`${path}.${key}[${name}]`, value, fault)];
      }),
    ),
  );
}

function ratioCauses(limit: Fields, path: string): Cause[] {
  const [minimums, maximums] = [parseAmounts(limit["min"]), parseAmounts(limit["max"])];
  return [...parseAmounts(limit["maxLimitRequestRatio"])].flatMap(([name, ratio]) => {
    const field = `${path}.maxLimitRequestRatio[${name}]`;
    const text = printQuantity(ratio);
    if (ratio.nanos < NANO) return [invalidValue(field, text, `ratio ${text} is less than 1`)];
    const [minimum = 0n, maximum] = [minimums.get(name)?.nanos, maximums.get(name)?.nanos];
    if (maximum === undefined || minimum === 0n || ratio.nanos * minimum <= maximum * NANO)
      return [];
    const quotient = (Number(maximum) / Number(minimum)).toFixed(6);
    return [invalidValue(field, text, `ratio ${text} is greater than max/min = ${quotient}`)];
  });
}

function typeCauses(limit: Fields, path: string): Cause[] {
  const { type } = limit;
  const fault = qualifiedNameFault(asText(type));
  const podFields = type === "Pod" ? ["default", "defaultRequest"] : [];
  const hasBound = [limit["min"], limit["max"]].some(
    (amounts) => isFields(amounts) && amounts["storage"] !== undefined,
  );
  const missing = "either minimum or maximum storage value is required, but neither was provided";
  return [
    ...(fault === undefined ? [] : [invalidValue(`${path}.type`, type, fault)]),
    ...podFields
      .filter((key) => Object.keys(asFields(limit[key])).length > 0)
      .map((key) => forbiddenValue(`${path}.${key}`, "may not be specified when `type` is 'Pod'")),
    ...(type === CLAIM && !hasBound ? [requiredValue(`${path}.limits`, missing)] : []),
  ];
}

function validate(range: KubeObject): Cause[] {
  const limits = readLimits(range);
  const types = new Set<unknown>();
  return limits.flatMap((limit, index) => {
    const path = `spec.limits[${String(index)}]`;
    const isDuplicate = types.has(limit["type"]);
    types.add(limit["type"]);
    return [
      ...typeCauses(limit, path),
      ...(isDuplicate ? [duplicateValue(`${path}.type`, limit["type"])] : []),
      ...orderCauses(limit, path),
      ...ratioCauses(limit, path),
    ];
  });
}

export const LIMIT_RANGE: Kind = defineKind({
  group: "",
  version: "v1",
  resource: "limitranges",
  kind: "LimitRange",
  shortNames: ["limits"],
  strategy: {
    applyDefaults: (range) => {
      readLimits(range).forEach(defaultLimit);
    },
    validate,
    columns: [column("Created At", ".metadata.creationTimestamp")],
  },
});
