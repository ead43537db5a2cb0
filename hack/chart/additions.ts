// SPDX-License-Identifier: Apache-2.0
// Templates of objects that only the chart has: settings, OpenShift's constraints, checks before an installation and a removal.
import { apiVersionOf, KUBEVIRTS, names } from "@patchbay/api";
import type { KubeObject } from "@patchbay/api/kubernetes";
import type { Base } from "./base.ts";
import { onlyIf, Placeholders, toYaml } from "./template.ts";
import { withHelmLabels, type ChartIdentity } from "./templates.ts";
import { IMAGES, SERVICES } from "./values.ts";

const NAMESPACE = names.SERVICES_NAMESPACE;
const LABELS = { [names.PART_OF_LABEL]: names.PRODUCT };

function print(
  object: KubeObject,
  identity: ChartIdentity,
  placeholders = new Placeholders(),
): string {
  return `---\n${placeholders.fill(toYaml(withHelmLabels(object, identity, placeholders)))}`;
}

/** Defines the reference of each image: by digest if it has one, otherwise by tag. */
function renderImages(): string {
  const define = (key: string): string => {
    const image = `.Values.images.${key}`;
    return [
      `{{- define "patchbay.images.${key}" -}}\n`,
      `{{ .Values.images.registry }}/{{ ${image}.repository }}`,
      `{{ if ${image}.digest }}@{{ ${image}.digest }}`,
      `{{ else if ${image}.tag }}:{{ ${image}.tag }}`,
      "{{ else }}:{{ .Chart.AppVersion }}{{ end }}\n",
      "{{- end }}\n",
    ].join("");
  };
  return Object.keys(IMAGES).map(define).join("");
}

/** Stops an installation in another namespace, whose services would not find their Secrets and accounts. */
function renderChecks(): string {
  const message = `Patchbay works only in the namespace ${NAMESPACE}. Add: --namespace ${NAMESPACE}`;
  return `{{- if ne .Release.Namespace "${NAMESPACE}" }}\n{{ fail "${message}" }}\n{{- end }}\n`;
}

function renderKubeVirt(identity: ChartIdentity): string {
  const placeholders = new Placeholders();
  const configuration = placeholders.lines(
    "{{- if .Values.configuration }}\nconfiguration: {{ toJson .Values.configuration }}\n{{- else }} {}\n{{- end }}",
  );
  const object = {
    apiVersion: apiVersionOf(KUBEVIRTS),
    kind: KUBEVIRTS.kind,
    metadata: { name: "kubevirt", namespace: NAMESPACE, labels: LABELS },
    spec: { [configuration]: null },
  };
  return print(object, identity, placeholders);
}

/** Fields of OpenShift's SecurityContextConstraints that are equal for all pods. */
const CONSTRAINTS = {
  apiVersion: "security.openshift.io/v1",
  kind: "SecurityContextConstraints",
  allowHostIPC: false,
  allowPrivilegedContainer: false,
  allowPrivilegeEscalation: false,
  seccompProfiles: ["runtime/default"],
  supplementalGroups: { type: "RunAsAny" },
  fsGroup: { type: "RunAsAny" },
};

function accountsOf(services: readonly string[]): readonly string[] {
  return services.map((name) => `${names.SERVICE_ACCOUNT_PREFIX}${name}`);
}

/** Constraints of the agents: exactly the capabilities in their manifests. */
function buildAgentConstraints(base: Base): KubeObject {
  const agents = [SERVICES.virtHandler, SERVICES.netAgent];
  const capabilities = agents.flatMap(
    (name) => base.service(name).container.securityContext.capabilities.add ?? [],
  );
  const object = {
    ...CONSTRAINTS,
    metadata: { name: "patchbay-agents", labels: LABELS },
    allowHostDirVolumePlugin: true,
    allowHostNetwork: true,
    allowHostPID: true,
    allowHostPorts: true,
    allowedCapabilities: [...new Set(capabilities)].sort(),
    readOnlyRootFilesystem: true,
    runAsUser: { type: "RunAsAny" },
    seLinuxContext: { type: "RunAsAny" },
    volumes: ["hostPath", "projected", "secret"],
    users: accountsOf(agents),
  };
  return object;
}

/** Constraints of the services, and of the launchers, which virt-controller creates. */
function buildServiceConstraints(): KubeObject {
  const object = {
    ...CONSTRAINTS,
    metadata: { name: "patchbay-services", labels: LABELS },
    allowHostDirVolumePlugin: false,
    allowHostNetwork: false,
    allowHostPID: false,
    allowHostPorts: false,
    requiredDropCapabilities: ["ALL"],
    runAsUser: { type: "MustRunAsNonRoot" },
    seLinuxContext: { type: "MustRunAs" },
    volumes: [
      "configMap",
      "csi",
      "downwardAPI",
      "emptyDir",
      "ephemeral",
      "image",
      "persistentVolumeClaim",
      "projected",
      "secret",
    ],
    users: accountsOf([SERVICES.virtApi, SERVICES.virtController]),
  };
  return object;
}

function renderConstraints(base: Base, identity: ChartIdentity): string {
  const isWanted = [
    'or (eq .Values.openshift.scc "always")',
    '(and (eq .Values.openshift.scc "auto") (.Capabilities.APIVersions.Has "security.openshift.io/v1"))',
  ].join(" ");
  const objects = [buildAgentConstraints(base), buildServiceConstraints()];
  return onlyIf(isWanted, objects.map((object) => print(object, identity)).join(""));
}

/** An account with its rights, and a Job that runs the command line with it before Helm creates or deletes the first object. */
interface Hook {
  readonly name: string;
  readonly event: "pre-install" | "pre-delete";
  readonly clusterRules: readonly object[];
  readonly namespaceRules: readonly object[];
  /** Arguments of `patchbay`. */
  readonly buildArgs: (placeholders: Placeholders) => readonly string[];
}

/** Helm's annotations of a hook, which it creates in the order of `weight`. A failed Job remains, so that its log can be read. */
function annotate({ event }: Hook, weight: number): Readonly<Record<string, string>> {
  return {
    "helm.sh/hook": event,
    "helm.sh/hook-weight": String(weight),
    "helm.sh/hook-delete-policy": "before-hook-creation,hook-succeeded",
  };
}

/** Rights to read what the checks read in the whole cluster, and to change nothing. */
const CLUSTER_RULES = [
  { apiGroups: [""], resources: ["nodes", "namespaces"], verbs: ["get", "list"] },
  {
    apiGroups: [""],
    resources: ["configmaps"],
    resourceNames: ["extension-apiserver-authentication"],
    verbs: ["get"],
  },
  { apiGroups: ["apps"], resources: ["daemonsets"], verbs: ["list"] },
  { apiGroups: ["discovery.k8s.io"], resources: ["endpointslices"], verbs: ["list"] },
  {
    apiGroups: ["apiextensions.k8s.io"],
    resources: ["customresourcedefinitions"],
    verbs: ["get", "list"],
  },
  { apiGroups: ["apiregistration.k8s.io"], resources: ["apiservices"], verbs: ["get", "list"] },
  {
    apiGroups: ["admissionregistration.k8s.io"],
    resources: ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"],
    verbs: ["get", "list"],
  },
  { apiGroups: ["scheduling.k8s.io"], resources: ["priorityclasses"], verbs: ["get"] },
  {
    apiGroups: ["rbac.authorization.k8s.io"],
    resources: ["clusterroles", "clusterrolebindings", "roles", "rolebindings"],
    verbs: ["get"],
  },
];

/** Rights to find objects of other installations in the namespace. The Secrets do not exist before the installation. */
const NAMESPACE_RULES = [
  { apiGroups: [""], resources: ["serviceaccounts", "services"], verbs: ["get"] },
  {
    apiGroups: [""],
    resources: ["secrets"],
    resourceNames: ["virt-api-certificates", "virt-handler-certificates"],
    verbs: ["get"],
  },
  { apiGroups: ["apps"], resources: ["deployments", "daemonsets"], verbs: ["get"] },
  { apiGroups: ["networking.k8s.io"], resources: ["networkpolicies"], verbs: ["get"] },
  { apiGroups: ["policy"], resources: ["poddisruptionbudgets"], verbs: ["get"] },
];

/** The checks before an installation. */
export const PREFLIGHT: Hook = {
  name: "preflight",
  event: "pre-install",
  clusterRules: CLUSTER_RULES,
  namespaceRules: NAMESPACE_RULES,
  buildArgs: (placeholders) => [
    "doctor",
    "--before-install",
    `--mode=${placeholders.inline("{{ .Values.netAgent.mode }}")}`,
    placeholders.lines("{{- if .Values.netAgent.podCreation }}\n- --pod-creation\n{{- end }}"),
  ],
};

/** Stops a removal while VMs exist. Otherwise net-agent's pods leave the nodes' container runtimes as they end. */
export const BEFORE_REMOVAL: Hook = {
  name: "before-removal",
  event: "pre-delete",
  clusterRules: [
    {
      apiGroups: ["apiextensions.k8s.io"],
      resources: ["customresourcedefinitions"],
      verbs: ["list"],
    },
    {
      apiGroups: ["kubevirt.io"],
      resources: ["virtualmachines", "virtualmachineinstances"],
      verbs: ["list"],
    },
  ],
  namespaceRules: [{ apiGroups: [""], resources: ["pods"], verbs: ["list", "patch"] }],
  buildArgs: () => ["uninstall", "--prepare"],
};

function nameOf({ name }: Hook): string {
  return `patchbay-${name}`;
}

/** Account of a hook's Job, and its rights. */
export function buildHookRights(hook: Hook): readonly KubeObject[] {
  const annotations = annotate(hook, -10);
  const name = nameOf(hook);
  const metadata = { name, namespace: NAMESPACE, labels: LABELS, annotations };
  const clusterMetadata = { name: `patchbay:${hook.name}`, labels: LABELS, annotations };
  const apiGroup = "rbac.authorization.k8s.io";
  const apiVersion = `${apiGroup}/v1`;
  const subjects = [{ kind: "ServiceAccount", name, namespace: NAMESPACE }];
  const objects = [
    { apiVersion: "v1", kind: "ServiceAccount", metadata },
    { apiVersion, kind: "ClusterRole", metadata: clusterMetadata, rules: hook.clusterRules },
    {
      apiVersion,
      kind: "ClusterRoleBinding",
      metadata: clusterMetadata,
      roleRef: { apiGroup, kind: "ClusterRole", name: clusterMetadata.name },
      subjects,
    },
    { apiVersion, kind: "Role", metadata, rules: hook.namespaceRules },
    {
      apiVersion,
      kind: "RoleBinding",
      metadata,
      roleRef: { apiGroup, kind: "Role", name },
      subjects,
    },
  ];
  return objects;
}

/** Renders a hook's Job. It names no user, because the chart's constraints may not exist on OpenShift when it runs. */
function renderJob(base: Base, hook: Hook, identity: ChartIdentity): string {
  const placeholders = new Placeholders();
  const { container } = base.service(SERVICES.virtApi);
  const name = nameOf(hook);
  const seccompProfile = { type: "RuntimeDefault" };
  const pullSecrets = placeholders.lines(
    "{{- if .Values.images.pullSecrets }}\nimagePullSecrets:\n{{- range .Values.images.pullSecrets }}\n  - name: {{ toJson . }}\n{{- end }}\n{{- end }}",
  );
  const job = {
    apiVersion: "batch/v1",
    kind: "Job",
    metadata: { name, namespace: NAMESPACE, labels: LABELS, annotations: annotate(hook, 0) },
    spec: {
      backoffLimit: 0,
      activeDeadlineSeconds: 240, // includes the pull of the image; Helm itself waits five minutes
      template: {
        metadata: { labels: { ...LABELS, "app.kubernetes.io/name": name } },
        spec: {
          serviceAccountName: name,
          restartPolicy: "Never",
          [pullSecrets]: null,
          nodeSelector: placeholders.inline("{{ toJson .Values.virtApi.nodeSelector }}"),
          tolerations: placeholders.inline("{{ toJson .Values.virtApi.tolerations }}"),
          securityContext: { runAsNonRoot: true, seccompProfile },
          containers: [
            {
              name: hook.name,
              image: placeholders.inline('{{ template "patchbay.images.patchbay" . }}'),
              imagePullPolicy: placeholders.inline("{{ .Values.images.pullPolicy }}"),
              command: ["patchbay"],
              args: hook.buildArgs(placeholders),
              resources: { requests: { cpu: "20m", memory: "128Mi" }, limits: { memory: "256Mi" } },
              securityContext: container.securityContext,
            },
          ],
        },
      },
    },
  };
  return print(job, identity, placeholders);
}

function renderHooks(base: Base, identity: ChartIdentity): string {
  const hooks = [PREFLIGHT, BEFORE_REMOVAL].flatMap((hook) => [
    ...buildHookRights(hook).map((object) => print(object, identity)),
    renderJob(base, hook, identity),
  ]);
  return onlyIf(".Values.preflight.enabled", hooks.join(""));
}

/** What helm prints after an installation or upgrade. */
const NOTES = `Patchbay {{ .Chart.AppVersion }} is installed. Wait until its pods are ready, then check it:

    kubectl -n ${NAMESPACE} rollout status deployment/virt-api deployment/virt-controller daemonset/virt-handler daemonset/net-agent
    patchbay doctor
{{ if .Release.IsUpgrade }}
Helm does not upgrade CRDs. If you have not done it yet, apply those of this version:

    tar -xzf patchbay-{{ .Chart.Version }}.tgz patchbay/crds && kubectl apply --server-side --force-conflicts -f patchbay/crds
{{ end }}
If an API server enforces Pod Security, the agents' pods need this label of the namespace:

    kubectl label --overwrite namespace ${NAMESPACE} pod-security.kubernetes.io/enforce=privileged
{{ if .Values.monitoring.serviceMonitor }}
Allow Prometheus to read the metrics; replace the names by yours:

    kubectl label namespace monitoring patchbay.io/reads-metrics=true
    kubectl create clusterrolebinding patchbay-metrics --clusterrole=patchbay:metrics-reader --serviceaccount=monitoring:prometheus-k8s
{{ end }}`;

/** Renders the chart's own templates, by file name. */
export function renderAdditions(base: Base, identity: ChartIdentity): ReadonlyMap<string, string> {
  return new Map([
    ["_images.tpl", renderImages()],
    ["checks.yaml", renderChecks()],
    ["kubevirt.yaml", renderKubeVirt(identity)],
    ["openshift.yaml", renderConstraints(base, identity)],
    ["hooks.yaml", renderHooks(base, identity)],
    ["NOTES.txt", NOTES],
  ]);
}
