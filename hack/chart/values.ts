// SPDX-License-Identifier: Apache-2.0
// The chart's values: names, meanings, schemas, and defaults from the manifests.
import { names } from "@patchbay/api";
import type { Base, Container, Workload } from "./base.ts";
import type { Schema } from "./configuration-schema.ts";

export interface ChartValue {
  /** Path in values.yaml, for example `virtApi.replicas`. */
  readonly name: string;
  readonly description: string;
  readonly schema: Schema;
  readonly default: unknown;
}

/** Pods of the base, by the name of their values. */
export const SERVICES = {
  virtApi: "virt-api",
  virtController: "virt-controller",
  virtHandler: "virt-handler",
  netAgent: "net-agent",
} as const;

/** Images, by the name of their values. `reference` is that of the manifests. */
export const IMAGES = {
  patchbay: { reference: names.PATCHBAY_IMAGE, use: "the services and agents" },
  virtLauncher: { reference: names.LAUNCHER_IMAGE, use: "the launchers of VMs" },
  sidecarShim: { reference: names.SIDECAR_SHIM_IMAGE, use: "hook sidecars that name no image" },
} as const;
export type ImageName = keyof typeof IMAGES;

/** What a release changes: the registry, and digests of images; images without one are named by tag. */
export interface ReleasedImages {
  readonly registry?: string;
  readonly digests?: Readonly<Partial<Record<ImageName, string>>>;
}

/** Splits `localhost/patchbay/virt-launcher:dev` into registry and repository. */
export function parseReference(reference: string): {
  readonly registry: string;
  readonly repository: string;
} {
  const [name = ""] = reference.split(":");
  const end = name.lastIndexOf("/");
  return { registry: name.slice(0, end), repository: name.slice(end + 1) };
}

const TEXT: Schema = { type: "string" };
const BOOLEAN: Schema = { type: "boolean" };
/** Names of images and paths appear unquoted in the templates, so the schema admits no other characters. */
const REFERENCE = "^[a-z0-9]+([._:/-]+[a-z0-9]+)*$";
const PATH: Schema = { type: "string", pattern: "^(/[A-Za-z0-9._-]+)+$" };
const QUANTITIES: Schema = {
  type: "object",
  additionalProperties: { type: ["string", "number"] },
};
const RESOURCES: Schema = {
  type: "object",
  additionalProperties: false,
  properties: { requests: QUANTITIES, limits: QUANTITIES },
};
const TOLERATIONS: Schema = {
  type: "array",
  items: {
    type: "object",
    additionalProperties: false,
    properties: {
      key: TEXT,
      operator: { enum: ["Exists", "Equal"] },
      value: TEXT,
      effect: { enum: ["NoSchedule", "PreferNoSchedule", "NoExecute"] },
      tolerationSeconds: { type: "integer" },
    },
  },
};

function value(name: string, description: string, schema: Schema, initial: unknown): ChartValue {
  return { name, description, schema, default: initial };
}

function listImageValues({ registry, digests = {} }: ReleasedImages): readonly ChartValue[] {
  const images = Object.entries(IMAGES).flatMap(([key, { reference, use }]) => [
    value(
      `images.${key}.repository`,
      `Repository of the image of ${use}, below the registry.`,
      { type: "string", pattern: REFERENCE },
      parseReference(reference).repository,
    ),
    value(
      `images.${key}.tag`,
      "Its tag. Empty: the version of the chart.",
      { type: "string", pattern: "^([A-Za-z0-9_][A-Za-z0-9._-]{0,127})?$" },
      "",
    ),
    value(
      `images.${key}.digest`,
      "Its digest, `sha256:…`, which takes precedence over the tag.",
      { type: "string", pattern: "^(sha256:[0-9a-f]{64})?$" },
      // The cast is safe, because the keys of IMAGES are its names.
      digests[key as ImageName] ?? "",
    ),
  ]);
  return [
    value(
      "images.registry",
      "Registry of all images, with its port and path.",
      { type: "string", pattern: REFERENCE },
      registry ?? parseReference(names.PATCHBAY_IMAGE).registry,
    ),
    value(
      "images.pullPolicy",
      "Pull policy of the services' and agents' images.",
      { enum: ["IfNotPresent", "Always", "Never"] },
      "IfNotPresent",
    ),
    value(
      "images.pullSecrets",
      "Names of Secrets in the namespace `patchbay` with the registry's credentials. Launchers use the Secrets of the VM's namespace.",
      { type: "array", items: { type: "string", minLength: 1 } },
      [],
    ),
    ...images,
  ];
}

function listServiceValues(
  key: string,
  { spec: { replicas, template } }: Workload,
  container: Container,
): readonly ChartValue[] {
  const { nodeSelector, tolerations } = template.spec;
  const replicaValue = value(
    `${key}.replicas`,
    `Number of pods of ${container.name}. With 1, no PodDisruptionBudget protects the pod from drains.`,
    { type: "integer", minimum: 1, maximum: 100 },
    replicas,
  );
  return [
    ...(replicas === undefined ? [] : [replicaValue]),
    value(
      `${key}.resources`,
      `Requests and limits of ${container.name}.`,
      RESOURCES,
      container.resources,
    ),
    value(
      `${key}.nodeSelector`,
      `Labels of the nodes of ${container.name}.`,
      { type: "object", additionalProperties: TEXT },
      nodeSelector,
    ),
    value(`${key}.tolerations`, `Tolerations of ${container.name}.`, TOLERATIONS, tolerations),
    value(
      `${key}.extraArgs`,
      `Further flags of ${container.name}, listed in config.md.`,
      { type: "array", items: { type: "string", pattern: "^--[a-z]" } },
      [],
    ),
  ];
}

/** Returns the value of a flag that the container has once. */
function flagOf({ args }: Container, flag: string): string {
  const found = args.find((arg) => arg.startsWith(`${flag}=`));
  if (found === undefined) throw new Error(`a manifest lacks ${flag}`);
  return found.slice(flag.length + 1);
}

function listAgentValues(agent: Container, handler: Container): readonly ChartValue[] {
  const binDirs = agent.args
    .filter((arg) => arg.startsWith("--cni-bin-dir="))
    .map((arg) => arg.replace("--cni-bin-dir=", ""));
  return [
    value(
      "netAgent.mode",
      "Which other components attach networks: none, Multus, or Multus and its dynamic networks controller.",
      { enum: ["alone", "multus", "multus-dynamic"] },
      flagOf(agent, "--mode"),
    ),
    value(
      "netAgent.podCreation",
      "Make net-agent the CNI plugin of the nodes' container runtimes, so that it attaches all networks when pods are created, in place of Multus.",
      BOOLEAN,
      false,
    ),
    value(
      "netAgent.cniBinDirs",
      "Directories of the nodes with CNI plugins.",
      { type: "array", minItems: 1, items: PATH },
      binDirs,
    ),
    value(
      "netAgent.runtimeBinDir",
      "Directory of the nodes in which the container runtime finds CNI plugins, for `podCreation`.",
      PATH,
      "/opt/cni/bin",
    ),
    value(
      "netAgent.runtimeConfigDir",
      "Directory of the nodes with the container runtime's CNI configurations, for `podCreation`.",
      PATH,
      "/etc/cni/net.d",
    ),
    value(
      "virtHandler.dataplaneGroup",
      "Group ID of vhost-user dataplanes that do not run as root; 0: root.",
      { type: "integer", minimum: 0, maximum: 4294967294 },
      Number(flagOf(handler, "--dataplane-group")),
    ),
  ];
}

const OTHERS: readonly ChartValue[] = [
  value(
    "kubeletRootDir",
    "Root directory of the kubelets, their `--root-dir`.",
    PATH,
    "/var/lib/kubelet",
  ),
  value(
    "multiNetworkPolicies",
    "Apply MultiNetworkPolicies to VMs. The cluster must serve the kind.",
    BOOLEAN,
    false,
  ),
  value(
    "vhostUserPolicy",
    "Create the policy that restricts vhost-user dataplanes in pods to labeled namespaces. Kubernetes 1.30 or later.",
    BOOLEAN,
    false,
  ),
  value(
    "monitoring.serviceMonitor",
    "Create a ServiceMonitor of the Prometheus Operator.",
    BOOLEAN,
    false,
  ),
  value("monitoring.rules", "Create a PrometheusRule with the alerts.", BOOLEAN, false),
  value("monitoring.dashboard", "Create a ConfigMap with Grafana's dashboard.", BOOLEAN, false),
  value(
    "openshift.scc",
    "Create SecurityContextConstraints: `auto` if the cluster serves them, `always`, or `never`.",
    { enum: ["auto", "always", "never"] },
    "auto",
  ),
  value(
    "selinuxType",
    "SELinux type of the agents' containers, on nodes that enforce SELinux: `spc_t`. Empty: the runtime chooses.",
    { type: "string", pattern: "^[A-Za-z0-9_.]*$" },
    "",
  ),
  value(
    "createNamespace",
    "Create the namespace `patchbay` with its labels, for `helm template`. Not with `helm install --create-namespace`.",
    BOOLEAN,
    false,
  ),
  value(
    "preflight.enabled",
    "Run a Job with the doctor's checks before the installation, which stops it if it would fail, and a Job before the removal, which stops it while VMs exist.",
    BOOLEAN,
    true,
  ),
];

/** Lists all values in the order of values.yaml. */
export function listValues(
  base: Base,
  configuration: Schema,
  released: ReleasedImages = {},
): readonly ChartValue[] {
  const services = Object.entries(SERVICES).map(([key, name]) => {
    const { workload, container } = base.service(name);
    return listServiceValues(key, workload, container);
  });
  const agent = base.service("net-agent").container;
  const handler = base.service("virt-handler").container;
  return [
    ...listImageValues(released),
    value(
      "configuration",
      "`spec.configuration` of the KubeVirt object: the cluster's settings, such as the tenant policy in `network.tenantPolicy`.",
      configuration,
      {},
    ),
    ...services.flat(),
    ...listAgentValues(agent, handler),
    ...OTHERS,
  ];
}

/** A level of values.yaml or of its schema. */
export interface ValueTree {
  readonly [name: string]: ValueTree | ChartValue;
}

export function isValue(node: ValueTree | ChartValue): node is ChartValue {
  return "schema" in node && "name" in node && typeof node.name === "string";
}

/** Arranges values by the parts of their names, in the order of their first appearance. */
export function toTree(values: readonly ChartValue[]): ValueTree {
  const tree: Record<string, ValueTree | ChartValue> = {};
  const groups = new Map<string, ChartValue[]>();
  for (const each of values) {
    const [first = "", ...rest] = each.name.split(".");
    if (rest.length === 0) {
      tree[first] = each;
      continue;
    }
    const group = groups.get(first) ?? [];
    groups.set(first, [...group, { ...each, name: rest.join(".") }]);
    tree[first] ??= {};
  }
  for (const [name, group] of groups) tree[name] = toTree(group);
  return tree;
}
