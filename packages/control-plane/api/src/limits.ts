// SPDX-License-Identifier: Apache-2.0
// Limits of lists, texts and durations that tenants write. docs/reference/limits.md and the CRDs are generated from this table.

type Schema = Readonly<Record<string, unknown>>;

/** Keywords of JSON Schema, and `maxBytes`: the size of all keys and texts of a map, which a CRD cannot limit. */
type LimitKeyword = "maxItems" | "maxLength" | "maxProperties" | "maximum" | "maxBytes";

export interface Limit {
  readonly field: string;
  readonly keyword: LimitKeyword;
  readonly max: number;
  readonly reason: string;
  readonly source: string;
}

export interface DefaultLimits {
  readonly maxItems: number;
  readonly maxProperties: number;
  readonly maxLength: number;
}

export interface LimitGroup {
  readonly title: string;
  readonly limits: readonly Limit[];
  readonly defaults?: DefaultLimits;
}

const KIB = 1024;
const OURS = "Patchbay";

/** Maximum number of problems in the refusal of one object. Further problems are not searched for. */
export const PROBLEMS_MAX = 8;
export const QUOTE_LENGTH_MAX = 128;

export const NETWORKS_MAX = 64;
export const NETWORKS_ANNOTATION_LENGTH_MAX: number = 64 * KIB;
export const CNI_CONFIG_LENGTH_MAX: number = 64 * KIB;
export const CNI_PLUGINS_MAX = 16;
export const HOOK_SIDECARS_MAX = 16;
/** Maximum number of addresses that an interface requests: one IPv4 and one IPv6 address. */
export const REQUESTED_ADDRESSES_MAX = 2;
export const CNI_CONFIG_DEPTH_MAX = 16;
export const METADATA_MAX_BYTES: number = 256 * KIB;
/** Maximum duration in seconds. The time after a longer duration could be beyond the year 9999, which RFC 3339 cannot print. */
export const DURATION_MAX_SECONDS: number = 2 ** 31 - 1;

function items(field: string, max: number, reason: string, source = OURS): Limit {
  return { field, keyword: "maxItems", max, reason, source };
}

function duration(field: string, source: string): Limit {
  const reason = "times that are computed from it stay printable";
  return { field, keyword: "maximum", max: DURATION_MAX_SECONDS, reason, source };
}

const ANNOTATION_LIMIT = "Kubernetes TotalAnnotationSizeLimitB";

function metadataLimits(prefix = ""): readonly Limit[] {
  const limit = { keyword: "maxBytes", max: METADATA_MAX_BYTES } as const;
  const reason = "services keep the metadata of all objects in memory";
  return [
    { ...limit, field: `${prefix}labels`, reason, source: `${OURS}, like the annotations` },
    { ...limit, field: `${prefix}annotations`, reason, source: ANNOTATION_LIMIT },
  ];
}

const PROBE_FIELDS = ["initialDelaySeconds", "periodSeconds", "timeoutSeconds"];

function guestGracePeriod(field: string): Limit {
  const reason = "the launcher pod has some seconds more, within its own limit";
  return { field, keyword: "maximum", max: 2_000_000_000, reason, source: OURS };
}

const VMI_LIMITS: readonly Limit[] = [
  items("domain.devices.interfaces", 64, "each needs an element of the pod's annotation"),
  items("networks", 64, "each needs an element of the pod's annotation"),
  items("domain.devices.disks", 256, "each is a device of the guest", "KubeVirt arrayLenMax"),
  items("volumes", 256, "each is a disk or is prepared for the pod", "KubeVirt arrayLenMax"),
  items("resourceClaims", 64, "each is a claim of the launcher pod"),
  guestGracePeriod("terminationGracePeriodSeconds"),
  ...["livenessProbe", "readinessProbe"].flatMap((probe) =>
    PROBE_FIELDS.map((field) => duration(`${probe}.${field}`, "Kubernetes int32")),
  ),
];

const VM_LIMITS: readonly Limit[] = [
  ...metadataLimits("template.metadata."),
  ...VMI_LIMITS.map((limit) => ({ ...limit, field: `template.spec.${limit.field}` })),
];

const NAD_LIMITS: readonly Limit[] = [
  {
    field: "config",
    keyword: "maxLength",
    max: CNI_CONFIG_LENGTH_MAX,
    reason: "each node parses each definition",
    source: OURS,
  },
];

const PREFERENCE_LIMITS: readonly Limit[] = [
  ...metadataLimits(),
  guestGracePeriod("preferredTerminationGracePeriodSeconds"),
];

const OWN_DEFAULTS: DefaultLimits = { maxItems: 256, maxProperties: 256, maxLength: 16 * KIB };

const OWN_KINDS: Readonly<Record<string, readonly Limit[]>> = {
  VirtualMachine: VM_LIMITS,
  VirtualMachineInstance: VMI_LIMITS,
  VirtualMachineInstanceMigration: [],
  VirtualMachineInstancetype: metadataLimits(),
  VirtualMachineClusterInstancetype: metadataLimits(),
  VirtualMachinePreference: PREFERENCE_LIMITS,
  VirtualMachineClusterPreference: PREFERENCE_LIMITS,
  NetworkAttachmentDefinition: NAD_LIMITS,
  DataVolume: [],
  IPAMClaim: [],
  MultiNetworkPolicy: [],
};

const PER_POD = "a node prepares or watches each of them";
const CONTAINER_LISTS = ["containers", "initContainers", "ephemeralContainers"];

const POD_LIMITS: readonly Limit[] = [
  ...CONTAINER_LISTS.map((list) => items(list, 64, "each is a process with a root directory")),
  items("volumes", 64, PER_POD),
  items("volumes[].projected.sources", 64, PER_POD),
  items("imagePullSecrets", 64, PER_POD),
  ...CONTAINER_LISTS.flatMap((list) => [
    items(`${list}[].env`, KIB, "each can expand the variables before it"),
    items(`${list}[].args`, KIB, "all arguments fit into one command line"),
    items(`${list}[].command`, KIB, "all arguments fit into one command line"),
  ]),
  items("dnsConfig.nameservers", 3, "resolvers read no more", "Kubernetes MaxDNSNameservers"),
  items("dnsConfig.searches", 32, "resolvers read no more", "Kubernetes MaxDNSSearchPaths"),
  duration("terminationGracePeriodSeconds", "Kubernetes, 2^31 - 1 s"),
  duration("activeDeadlineSeconds", "Kubernetes, 2^31 - 1 s"),
  duration("tolerations[].tolerationSeconds", "Kubernetes, 2^31 - 1 s"),
  ...CONTAINER_LISTS.flatMap((list) =>
    ["livenessProbe", "startupProbe"].map((probe) =>
      duration(`${list}[].${probe}.terminationGracePeriodSeconds`, `${OURS}, like the pod's`),
    ),
  ),
];

const POD_DEFAULTS: DefaultLimits = { maxItems: 256, maxProperties: 256, maxLength: 128 * KIB };

const SERVICE_LIMITS: readonly Limit[] = [
  items("ports", 256, "each is an entry of the node's packet filter"),
  {
    field: "sessionAffinityConfig.clientIP.timeoutSeconds",
    keyword: "maximum",
    max: 86_400,
    reason: "the node keeps an entry for each client until then",
    source: "Kubernetes MaxClientIPServiceAffinitySeconds",
  },
];

const SERVICE_DEFAULTS: DefaultLimits = { maxItems: 256, maxProperties: 256, maxLength: 4 * KIB };

/** Defaults of the namespaced kinds without limits of their own. Their texts may be as long as an object, like a ConfigMap's. */
const OTHER_DEFAULTS: DefaultLimits = {
  maxItems: KIB,
  maxProperties: 32 * KIB,
  maxLength: 1.5 * KIB * KIB,
};

const EVENT_DEFAULTS: DefaultLimits = { maxItems: 256, maxProperties: 256, maxLength: 8 * KIB };

const METADATA_LIMITS: readonly Limit[] = [
  ...metadataLimits("metadata."),
  items("metadata.finalizers", 4 * KIB, "each is checked at each write"),
  items("metadata.ownerReferences", KIB, "the garbage collector reads each owner"),
];

const NETWORKS_ANNOTATION = "annotation k8s.v1.cni.cncf.io/networks";
const IN_CONFIG = "NetworkAttachmentDefinition spec.config";

const TEXT_LIMITS: readonly Limit[] = [
  {
    field: NETWORKS_ANNOTATION,
    keyword: "maxLength",
    max: NETWORKS_ANNOTATION_LENGTH_MAX,
    reason: "each change of a pod parses it",
    source: OURS,
  },
  items(NETWORKS_ANNOTATION, NETWORKS_MAX, "each is a link of the pod"),
  items(
    "annotation network.kubevirt.io/addresses: addresses of an interface",
    REQUESTED_ADDRESSES_MAX,
    "one of each family",
    "NPWG IPAMClaim spec.ipRequests",
  ),
  items(
    "annotation hooks.kubevirt.io/hookSidecars",
    HOOK_SIDECARS_MAX,
    "each is a container of the launcher pod",
  ),
  items(`${IN_CONFIG}: plugins`, CNI_PLUGINS_MAX, "each is a process that runs as root"),
  {
    field: `${IN_CONFIG}: depth of lists and objects`,
    keyword: "maximum",
    max: CNI_CONFIG_DEPTH_MAX,
    reason: "plugins parse it recursively",
    source: OURS,
  },
];

function prefixed(limits: readonly Limit[], prefix: string): readonly Limit[] {
  return limits.map((limit) => ({ ...limit, field: `${prefix}.${limit.field}` }));
}

export const LIMIT_GROUPS: readonly LimitGroup[] = [
  { title: "Metadata of each object, and of templates", limits: METADATA_LIMITS },
  {
    title: "VirtualMachineInstance; the same below `spec.template.spec` of a VirtualMachine",
    limits: prefixed(VMI_LIMITS, "spec"),
    defaults: OWN_DEFAULTS,
  },
  {
    title: "VirtualMachine",
    limits: prefixed(metadataLimits("template.metadata."), "spec"),
    defaults: OWN_DEFAULTS,
  },
  {
    title: "VirtualMachinePreference and VirtualMachineClusterPreference",
    limits: prefixed([guestGracePeriod("preferredTerminationGracePeriodSeconds")], "spec"),
    defaults: OWN_DEFAULTS,
  },
  {
    title:
      "NetworkAttachmentDefinition; the defaults also limit DataVolumes, IPAMClaims, MultiNetworkPolicies, migrations and instancetypes",
    limits: prefixed(NAD_LIMITS, "spec"),
    defaults: OWN_DEFAULTS,
  },
  { title: "Texts with a syntax of their own", limits: TEXT_LIMITS },
  {
    title: "Pod, and pod templates of other kinds (standalone)",
    limits: prefixed(POD_LIMITS, "spec"),
    defaults: POD_DEFAULTS,
  },
  {
    title: "Service (standalone)",
    limits: prefixed(SERVICE_LIMITS, "spec"),
    defaults: SERVICE_DEFAULTS,
  },
  { title: "Event (standalone)", limits: [], defaults: EVENT_DEFAULTS },
  { title: "Other namespaced kinds (standalone)", limits: [], defaults: OTHER_DEFAULTS },
];

type MutableSchema = Record<string, unknown>;

function childOf(schema: MutableSchema, keyword: string): MutableSchema {
  schema[keyword] ??= {};
  return schema[keyword] as MutableSchema;
}

function toSchema(limits: readonly Limit[]): Schema {
  const root: MutableSchema = {};
  for (const { field, keyword, max } of limits) {
    let at = root;
    for (const segment of field.split(".")) {
      at = childOf(childOf(at, "properties"), segment.replace(/\[\]$/, ""));
      if (segment.endsWith("[]")) at = childOf(at, "items");
    }
    at[keyword] = max;
  }
  return root;
}

function asSchema(value: unknown): Schema {
  return typeof value === "object" && value !== null ? (value as Schema) : {};
}

const QUANTITY_LENGTH_MAX = 64;

function isFreeText(schema: Schema): boolean {
  return schema["type"] === "string" && schema["enum"] === undefined;
}

function buildKeywords(schema: Schema, limits: Schema, defaults: DefaultLimits): Schema {
  const own = Object.fromEntries(
    Object.entries(limits).filter(([, value]) => typeof value === "number"),
  );
  const isMap = schema["additionalProperties"] !== undefined;
  const isQuantity = schema["x-kubernetes-int-or-string"] === true;
  return {
    ...(schema["type"] === "array" ? { maxItems: defaults.maxItems } : {}),
    ...(isFreeText(schema) ? { maxLength: defaults.maxLength } : {}),
    ...(isQuantity ? { maxLength: QUANTITY_LENGTH_MAX } : {}),
    ...(isMap ? { maxProperties: defaults.maxProperties } : {}),
    ...own,
  };
}

/** The total size of a map replaces the other limits of its entries. */
function findEntryDefaults({ maxBytes }: Schema, defaults: DefaultLimits): DefaultLimits {
  if (typeof maxBytes !== "number") return defaults;
  return { maxItems: maxBytes, maxProperties: maxBytes, maxLength: maxBytes };
}

function addLimits(schema: Schema, limits: Schema, outerDefaults: DefaultLimits): Schema {
  const defaults = findEntryDefaults(limits, outerDefaults);
  const children = asSchema(limits["properties"]);
  const properties = Object.entries(asSchema(schema["properties"])).map(
    ([name, child]) =>
      [name, addLimits(asSchema(child), asSchema(children[name]), defaults)] as const,
  );
  const nested = (["items", "additionalProperties"] as const)
    .filter((keyword) => schema[keyword] !== undefined)
    .map(
      (keyword) =>
        [
          keyword,
          addLimits(asSchema(schema[keyword]), asSchema(limits[keyword]), defaults),
        ] as const,
    );
  return {
    ...buildKeywords(schema, limits, defaults),
    ...schema,
    ...(properties.length === 0 ? {} : { properties: Object.fromEntries(properties) }),
    ...Object.fromEntries(nested),
  };
}

/** Adds the limits of `kind` to the structural schema of its specification. Kinds of the operator have no limits. */
export function withLimits(kind: string, schema: Schema): Schema {
  const limits = Object.hasOwn(OWN_KINDS, kind) ? OWN_KINDS[kind] : undefined;
  return limits === undefined ? schema : addLimits(schema, toSchema(limits), OWN_DEFAULTS);
}

const OWN_KIND_SCHEMAS: ReadonlyMap<string, Schema> = new Map(
  Object.entries(OWN_KINDS).map(([kind, limits]) => [kind, toSchema(limits)]),
);

export function findSpecBeyondLimit(
  kind: string,
  spec: unknown,
  path = "spec",
): LimitProblem | undefined {
  const schema = OWN_KIND_SCHEMAS.get(kind);
  return schema === undefined ? undefined : findBeyondLimit(spec, schema, path, OWN_DEFAULTS);
}

export interface KindLimits {
  readonly schema: Schema;
  readonly defaults: DefaultLimits;
}

const TEMPLATE_PATHS: Readonly<Record<string, string>> = {
  CronJob: "spec.jobTemplate.spec.template",
  ...Object.fromEntries(
    [
      "DaemonSet",
      "Deployment",
      "Job",
      "PodTemplate",
      "ReplicaSet",
      "ReplicationController",
      "StatefulSet",
    ].map((kind) => [kind, "spec.template"]),
  ),
};

function listBuiltInLimits(kind: string): readonly Limit[] {
  if (kind === "Pod") return prefixed(POD_LIMITS, "spec");
  if (kind === "Service") return prefixed(SERVICE_LIMITS, "spec");
  const template = Object.hasOwn(TEMPLATE_PATHS, kind) ? TEMPLATE_PATHS[kind] : undefined;
  if (template === undefined) return [];
  return [...prefixed(POD_LIMITS, `${template}.spec`), ...metadataLimits(`${template}.metadata.`)];
}

function findDefaults(kind: string): DefaultLimits {
  if (kind === "Service") return SERVICE_DEFAULTS;
  if (kind === "Event") return EVENT_DEFAULTS;
  const isPod = kind === "Pod" || Object.hasOwn(TEMPLATE_PATHS, kind);
  return isPod ? POD_DEFAULTS : OTHER_DEFAULTS;
}

export function buildKindLimits(kind: string): KindLimits {
  const schema = toSchema([...METADATA_LIMITS, ...listBuiltInLimits(kind)]);
  return { schema, defaults: findDefaults(kind) };
}

export interface LimitProblem {
  readonly field: string;
  readonly keyword: LimitKeyword;
  readonly max: number;
  readonly actual: number;
}

/** Counts Unicode code points, like `maxLength`. Texts of more than twice the maximum are not counted exactly. */
function measureText(text: string, max: number): number {
  if (text.length <= max || text.length > 2 * max) return text.length;
  return Array.from(text).length;
}

function utf8Length(text: string): number {
  let bytes = 0;
  for (let index = 0; index < text.length; index += 1) {
    const code = text.charCodeAt(index);
    // Each half of a surrogate pair counts as two of the pair's four bytes.
    const isHalf = code >= 0xd8_00 && code <= 0xdf_ff;
    const longBytes = code < 0x8_00 || isHalf ? 2 : 3;
    bytes += code < 0x80 ? 1 : longBytes;
  }
  return bytes;
}

function measureMap(map: Schema): number {
  return Object.entries(map).reduce(
    (sum, [key, value]) =>
      sum + utf8Length(key) + (typeof value === "string" ? utf8Length(value) : 0),
    0,
  );
}

interface Position {
  readonly schema: Schema;
  readonly field: string;
  readonly defaults: DefaultLimits | undefined;
}

function compare(
  { schema, field, defaults }: Position,
  keyword: LimitKeyword,
  measure: (max: number) => number,
): LimitProblem | undefined {
  const own = schema[keyword];
  const max = typeof own === "number" ? own : defaults?.[keyword as keyof DefaultLimits];
  if (typeof max !== "number") return undefined;
  const actual = measure(max);
  return actual > max ? { field, keyword, max, actual } : undefined;
}

function findInList(list: readonly unknown[], at: Position): LimitProblem | undefined {
  const tooMany = compare(at, "maxItems", () => list.length);
  if (tooMany !== undefined) return tooMany;
  const schema = asSchema(at.schema["items"]);
  for (const [index, item] of list.entries()) {
    const field = `${at.field}[${String(index)}]`;
    const problem = findProblem(item, { ...at, schema, field });
    if (problem !== undefined) return problem;
  }
  return undefined;
}

function appendKey(field: string, key: string): string {
  if (field.length > 4 * QUOTE_LENGTH_MAX) return field;
  return field === "" ? cutText(key) : `${field}.${cutText(key)}`;
}

function findKeyProblem(key: string, at: Position): LimitProblem | undefined {
  const field = appendKey(at.field, key);
  return compare({ ...at, schema: {}, field }, "maxLength", (max) => measureText(key, max));
}

function findInMap(map: Schema, at: Position): LimitProblem | undefined {
  const ownProblem =
    compare(at, "maxBytes", () => measureMap(map)) ??
    compare(at, "maxProperties", () => Object.keys(map).length);
  if (ownProblem !== undefined || at.schema["maxBytes"] !== undefined) return ownProblem;
  const properties = asSchema(at.schema["properties"]);
  const mapValues = asSchema(at.schema["additionalProperties"]);
  for (const [key, value] of Object.entries(map)) {
    const schema = Object.hasOwn(properties, key) ? asSchema(properties[key]) : mapValues;
    const problem =
      findKeyProblem(key, at) ??
      findProblem(value, { ...at, schema, field: appendKey(at.field, key) });
    if (problem !== undefined) return problem;
  }
  return undefined;
}

function findProblem(value: unknown, at: Position): LimitProblem | undefined {
  if (typeof value === "string") {
    return compare(at, "maxLength", (max) => measureText(value, max));
  }
  if (typeof value === "number" || typeof value === "bigint") {
    return compare(at, "maximum", () => Number(value));
  }
  if (Array.isArray(value)) return findInList(value, at);
  return typeof value === "object" && value !== null ? findInMap(asSchema(value), at) : undefined;
}

/** Returns the first field of `value` that is beyond its limit in `schema`, or in `defaults`. `field` is the path of `value`. */
export function findBeyondLimit(
  value: unknown,
  schema: Schema,
  field: string,
  defaults?: DefaultLimits,
): LimitProblem | undefined {
  return findProblem(value, { schema, field, defaults });
}

const DESCRIPTIONS: Readonly<Record<LimitKeyword, (max: string) => string>> = {
  maxItems: (max) => `list exceeds the ${max} element limit in length`,
  maxProperties: (max) => `exceeds the limit of ${max} entries`,
  maxLength: (max) => `exceeds the limit of ${max} characters`,
  maxBytes: (max) => `exceeds the limit of ${max} bytes`,
  maximum: (max) => `must be less than or equal to ${max}`,
};

export function describeLimitProblem({ field, keyword, max }: LimitProblem): string {
  return `${field} ${DESCRIPTIONS[keyword](String(max))}`;
}

export function cutText(text: string, max: number = QUOTE_LENGTH_MAX): string {
  return text.length > max ? `${text.slice(0, max)}…` : text;
}

export function collectProblems<Item, Problem>(
  list: Iterable<Item>,
  judge: (item: Item) => readonly Problem[],
): readonly Problem[] {
  const problems: Problem[] = [];
  for (const item of list) {
    problems.push(...judge(item).slice(0, PROBLEMS_MAX));
    if (problems.length >= PROBLEMS_MAX) return problems.slice(0, PROBLEMS_MAX);
  }
  return problems;
}

/** Runs checks until there are eight problems. A check that throws is a problem itself, because a retry would fail alike. */
export function runChecks<Problem>(
  checks: readonly (() => readonly Problem[])[],
  toProblem: (message: string) => Problem,
): readonly Problem[] {
  try {
    return collectProblems(checks, (check) => check());
  } catch (error) {
    return [toProblem(`the check failed: ${cutText(String(error))}`)];
  }
}
