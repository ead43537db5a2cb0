// SPDX-License-Identifier: Apache-2.0
// Changes of the rendered objects, for each value of the Helm chart.
import type { ChartInput } from "./render-chart.ts";

type Values = NonNullable<ChartInput["values"]>;

export interface ValueCase extends ChartInput {
  readonly what: string;
  readonly values: Values;
  /** Values on which this value depends, which both renderings have. */
  readonly given?: Values;
  /** Kinds and names of objects that exist only with the value. */
  readonly adds?: readonly string[];
  /** Kinds and names of objects that exist only without it. */
  readonly removes?: readonly string[];
  /** Fields of the other objects: `-` without the value, `+` with it. */
  readonly changes?: readonly string[];
}

const POD = "spec.template.spec";
const API = `Deployment patchbay/virt-api ${POD}`;
const CONTROLLER = `Deployment patchbay/virt-controller ${POD}`;
const HANDLER = `DaemonSet patchbay/virt-handler ${POD}`;
const AGENT = `DaemonSet patchbay/net-agent ${POD}`;
const PREFLIGHT = `Job patchbay/patchbay-preflight ${POD}`;
const BEFORE_REMOVAL = `Job patchbay/patchbay-before-removal ${POD}`;
const JOBS = [PREFLIGHT, BEFORE_REMOVAL];
const PODS = [API, CONTROLLER, HANDLER, AGENT, ...JOBS];
const IMAGE = "containers[].image";
const ARGUMENT = "containers[].args[]";
const VOLUME = "volumes[].hostPath.path";
const DIGEST = `sha256:${"0123456789abcdef".repeat(4)}`;
const VERSION = "0.2.0";

/** Lines for a field of each pod that has the first value without, and the second with the case's value. */
function inPods(
  pods: readonly string[],
  field: string,
  before: string | undefined,
  after?: string,
): readonly string[] {
  return pods.flatMap((pod) => [
    ...(before === undefined ? [] : [`- ${pod}.${field}: "${before}"`]),
    ...(after === undefined ? [] : [`+ ${pod}.${field}: "${after}"`]),
  ]);
}

/** An image that is an argument of virt-controller. */
function argumentCases(key: string, flag: string, repository: string): readonly ValueCase[] {
  const before = `${flag}=localhost/patchbay/${repository}:${VERSION}`;
  const named = (value: Values, after: string): ValueCase => ({
    what: `images.${key}.${Object.keys(value).join()}`,
    values: { images: { [key]: value } },
    changes: inPods([CONTROLLER], ARGUMENT, before, `${flag}=${after}`),
  });
  return [
    named({ repository: "team/other" }, `localhost/patchbay/team/other:${VERSION}`),
    named({ tag: "edge" }, `localhost/patchbay/${repository}:edge`),
    named({ digest: DIGEST }, `localhost/patchbay/${repository}@${DIGEST}`),
  ];
}

function imageCase(value: Values, after: string): ValueCase {
  return {
    what: `images.patchbay.${Object.keys(value).join()}`,
    values: { images: { patchbay: value } },
    changes: inPods(PODS, IMAGE, `localhost/patchbay/patchbay:${VERSION}`, after),
  };
}

const IMAGE_CASES: readonly ValueCase[] = [
  {
    what: "images.registry: of all images",
    values: { images: { registry: "registry.example:5000/mirror" } },
    changes: [
      ...inPods(
        PODS,
        IMAGE,
        `localhost/patchbay/patchbay:${VERSION}`,
        `registry.example:5000/mirror/patchbay:${VERSION}`,
      ),
      ...[
        ["--launcher-image", "virt-launcher"],
        ["--sidecar-shim-image", "sidecar-shim"],
      ].flatMap(([flag = "", name = ""]) =>
        inPods(
          [CONTROLLER],
          ARGUMENT,
          `${flag}=localhost/patchbay/${name}:${VERSION}`,
          `${flag}=registry.example:5000/mirror/${name}:${VERSION}`,
        ),
      ),
    ],
  },
  {
    what: "images.pullPolicy",
    values: { images: { pullPolicy: "Always" } },
    changes: inPods(PODS, "containers[].imagePullPolicy", "IfNotPresent", "Always"),
  },
  {
    what: "images.pullSecrets",
    values: { images: { pullSecrets: ["registry", "mirror"] } },
    changes: [
      ...inPods(PODS, "imagePullSecrets[].name", undefined, "registry"),
      ...inPods(PODS, "imagePullSecrets[].name", undefined, "mirror"),
    ],
  },
  imageCase({ repository: "team/other" }, `localhost/patchbay/team/other:${VERSION}`),
  imageCase({ tag: "edge" }, "localhost/patchbay/patchbay:edge"),
  imageCase({ digest: DIGEST, tag: "edge" }, `localhost/patchbay/patchbay@${DIGEST}`),
  ...argumentCases("virtLauncher", "--launcher-image", "virt-launcher"),
  ...argumentCases("sidecarShim", "--sidecar-shim-image", "sidecar-shim"),
];

interface Service {
  readonly key: string;
  readonly pod: string;
  readonly request: string;
  readonly limit: string;
  /** Pods with the same node selector and tolerations. */
  readonly pods: readonly string[];
  /** Key of the toleration; unset if the service tolerates all taints. */
  readonly tolerated?: string;
}

function serviceCases({ key, pod, pods, ...initial }: Service): readonly ValueCase[] {
  const resources = `${pod}.containers[].resources`;
  return [
    {
      what: `${key}.resources`,
      // Helm merges maps, so unnamed requests stay.
      values: { [key]: { resources: { requests: { memory: "1Gi" }, limits: { memory: "3Gi" } } } },
      changes: [
        `- ${resources}.requests.memory: "${initial.request}"`,
        `+ ${resources}.requests.memory: "1Gi"`,
        `- ${resources}.limits.memory: "${initial.limit}"`,
        `+ ${resources}.limits.memory: "3Gi"`,
      ],
    },
    {
      what: `${key}.nodeSelector`,
      values: { [key]: { nodeSelector: { "example.com/vms": "true" } } },
      changes: inPods(pods, "nodeSelector.example.com/vms", undefined, "true"),
    },
    {
      what: `${key}.tolerations`,
      values: {
        [key]: { tolerations: [{ key: "vms", operator: "Exists", effect: "NoSchedule" }] },
      },
      changes: [
        ...inPods(pods, "tolerations[].key", initial.tolerated, "vms"),
        ...inPods(pods, "tolerations[].effect", undefined, "NoSchedule"),
      ],
    },
    {
      what: `${key}.extraArgs`,
      values: { [key]: { extraArgs: ["--log-level=debug"] } },
      changes: inPods([pod], ARGUMENT, undefined, "--log-level=debug"),
    },
  ];
}

function replicaCases(key: string, name: string): readonly ValueCase[] {
  const changes = (count: number): readonly string[] => [
    `- Deployment patchbay/${name} spec.replicas: 2`,
    `+ Deployment patchbay/${name} spec.replicas: ${String(count)}`,
  ];
  return [
    { what: `${key}.replicas: 3`, values: { [key]: { replicas: 3 } }, changes: changes(3) },
    {
      what: `${key}.replicas: 1, which a budget would protect from every drain`,
      values: { [key]: { replicas: 1 } },
      changes: changes(1),
      removes: [`PodDisruptionBudget patchbay/${name}`],
    },
  ];
}

const SERVICE_CASES: readonly ValueCase[] = [
  ...replicaCases("virtApi", "virt-api"),
  ...replicaCases("virtController", "virt-controller"),
  ...serviceCases({
    key: "virtApi",
    pod: API,
    pods: [API, ...JOBS],
    request: "128Mi",
    limit: "1Gi",
    tolerated: "CriticalAddonsOnly",
  }),
  ...serviceCases({
    key: "virtController",
    pod: CONTROLLER,
    pods: [CONTROLLER],
    request: "128Mi",
    limit: "2Gi",
    tolerated: "CriticalAddonsOnly",
  }),
  ...serviceCases({
    key: "virtHandler",
    pod: HANDLER,
    pods: [HANDLER],
    request: "192Mi",
    limit: "1Gi",
  }),
  ...serviceCases({ key: "netAgent", pod: AGENT, pods: [AGENT], request: "128Mi", limit: "1Gi" }),
];

const POD_CREATION: Values = { netAgent: { podCreation: true } };

const NODE_CASES: readonly ValueCase[] = [
  {
    what: "netAgent.mode",
    values: { netAgent: { mode: "multus-dynamic" } },
    changes: inPods([AGENT, PREFLIGHT], ARGUMENT, "--mode=multus", "--mode=multus-dynamic"),
  },
  {
    what: "netAgent.cniBinDirs",
    values: { netAgent: { cniBinDirs: ["/opt/cni/bin", "/var/lib/cni/bin"] } },
    changes: inPods(
      [AGENT],
      ARGUMENT,
      "--cni-bin-dir=/usr/lib/cni",
      "--cni-bin-dir=/var/lib/cni/bin",
    ),
  },
  {
    what: "netAgent.runtimeBinDir",
    given: POD_CREATION,
    values: { netAgent: { runtimeBinDir: "/var/lib/cni/bin" } },
    changes: inPods([AGENT], VOLUME, "/opt/cni/bin", "/var/lib/cni/bin"),
  },
  {
    what: "netAgent.runtimeConfigDir",
    given: POD_CREATION,
    values: { netAgent: { runtimeConfigDir: "/etc/kubernetes/cni/net.d" } },
    changes: inPods([AGENT], VOLUME, "/etc/cni/net.d", "/etc/kubernetes/cni/net.d"),
  },
  {
    what: "virtHandler.dataplaneGroup",
    values: { virtHandler: { dataplaneGroup: 801 } },
    changes: inPods([HANDLER], ARGUMENT, "--dataplane-group=0", "--dataplane-group=801"),
  },
  {
    what: "kubeletRootDir: the agents' directories, but not that of device plugins",
    values: { kubeletRootDir: "/data/kubelet" },
    changes: [
      ...inPods([HANDLER], VOLUME, "/var/lib/kubelet/pods", "/data/kubelet/pods"),
      ...inPods(
        [HANDLER, AGENT],
        VOLUME,
        "/var/lib/kubelet/pod-resources",
        "/data/kubelet/pod-resources",
      ),
    ],
  },
  {
    what: "selinuxType: of the agents",
    values: { selinuxType: "spc_t" },
    changes: inPods(
      [HANDLER, AGENT],
      "containers[].securityContext.seLinuxOptions.type",
      undefined,
      "spc_t",
    ),
  },
];

const CONSTRAINTS = [
  "SecurityContextConstraints patchbay-agents",
  "SecurityContextConstraints patchbay-services",
];
const OPENSHIFT = ["security.openshift.io/v1"];

const CLUSTER_CASES: readonly ValueCase[] = [
  {
    what: "configuration: the tenant policy",
    values: { configuration: { network: { tenantPolicy: { masters: ["eth1", "<&>"] } } } },
    changes: [
      "- KubeVirt patchbay/kubevirt spec: {}",
      '+ KubeVirt patchbay/kubevirt spec.configuration.network.tenantPolicy.masters[]: "eth1"',
      '+ KubeVirt patchbay/kubevirt spec.configuration.network.tenantPolicy.masters[]: "<&>"',
    ],
  },
  {
    what: "multiNetworkPolicies",
    values: { multiNetworkPolicies: true },
    adds: [
      "ClusterRole patchbay:multi-network-policies",
      "ClusterRole patchbay:multi-network-policies:edit",
      "ClusterRole patchbay:multi-network-policies:view",
      "ClusterRoleBinding patchbay:multi-network-policies",
    ],
    changes: inPods([HANDLER], ARGUMENT, undefined, "--multi-network-policies"),
  },
  {
    what: "vhostUserPolicy",
    values: { vhostUserPolicy: true },
    adds: [
      "ValidatingAdmissionPolicy vhost-user-dataplane.patchbay.io",
      "ValidatingAdmissionPolicyBinding vhost-user-dataplane.patchbay.io",
    ],
  },
  {
    what: "monitoring.serviceMonitor",
    values: { monitoring: { serviceMonitor: true } },
    adds: ["Service patchbay/metrics", "ServiceMonitor patchbay/patchbay"],
  },
  {
    what: "monitoring.rules",
    values: { monitoring: { rules: true } },
    adds: ["PrometheusRule patchbay/patchbay"],
  },
  {
    what: "monitoring.dashboard",
    values: { monitoring: { dashboard: true } },
    adds: ["ConfigMap patchbay/patchbay-dashboard"],
  },
  { what: "openshift.scc: always", values: { openshift: { scc: "always" } }, adds: CONSTRAINTS },
  {
    what: "openshift.scc: never, on OpenShift",
    values: { openshift: { scc: "never" } },
    served: OPENSHIFT,
    removes: CONSTRAINTS,
  },
  { what: "createNamespace", values: { createNamespace: true }, adds: ["Namespace patchbay"] },
  {
    what: "preflight.enabled",
    values: { preflight: { enabled: false } },
    removes: [
      "ClusterRole patchbay:before-removal",
      "ClusterRole patchbay:preflight",
      "ClusterRoleBinding patchbay:before-removal",
      "ClusterRoleBinding patchbay:preflight",
      "Job patchbay/patchbay-before-removal",
      "Job patchbay/patchbay-preflight",
      "Role patchbay/patchbay-before-removal",
      "Role patchbay/patchbay-preflight",
      "RoleBinding patchbay/patchbay-before-removal",
      "RoleBinding patchbay/patchbay-preflight",
      "ServiceAccount patchbay/patchbay-before-removal",
      "ServiceAccount patchbay/patchbay-preflight",
    ],
  },
];

/** A case for each value, except `netAgent.podCreation`, whose result is that of `patchbay install --pod-creation`. */
export const VALUE_CASES: readonly ValueCase[] = [
  ...IMAGE_CASES,
  ...SERVICE_CASES,
  ...NODE_CASES,
  ...CLUSTER_CASES,
];
