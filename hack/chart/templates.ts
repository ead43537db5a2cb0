// SPDX-License-Identifier: Apache-2.0
// Makes templates of the base's objects: values in place of settings, and variants by version of the API server.
import type { KubeObject } from "@patchbay/api/kubernetes";
import { forServerVersion, withConditions, withSettings } from "@patchbay/manifests";
import { isWorkload, type Base, type Container, type HostVolume, type Source } from "./base.ts";
import { onlyIf, Placeholders, printVariants, toYaml, type Variant } from "./template.ts";
import { IMAGES, SERVICES } from "./values.ts";

/** Name and version as in Chart.yaml. */
export interface ChartIdentity {
  readonly name: string;
  readonly version: string;
}

const KUBELET_DIR = "/var/lib/kubelet";
const SERVER = ".Capabilities.KubeVersion.Version";

/** Any version before 1.30, which has the annotation for AppArmor instead of the field. */
const OLD_SERVER = JSON.stringify({ gitVersion: "v1.29.0" });

function first(objects: readonly KubeObject[], otherwise: KubeObject): KubeObject {
  return objects[0] ?? otherwise;
}

function withContainer(
  object: KubeObject,
  change: (container: Container) => Container,
): KubeObject {
  if (!isWorkload(object)) return object;
  const { spec } = object;
  const { template } = spec;
  const [container] = template.spec.containers;
  const pod = { ...template.spec, containers: [change(container)] };
  return { ...object, spec: { ...spec, template: { ...template, spec: pod } } } as KubeObject;
}

function listVariants({ policyFlag }: Base): readonly Variant[] {
  return [
    {
      condition: ".Values.netAgent.podCreation",
      change: (object) => first(withSettings([object], { podCreation: true }), object),
    },
    {
      condition: ".Values.multiNetworkPolicies",
      change: (object) =>
        object.metadata.name === SERVICES.virtHandler
          ? withContainer(object, (container) => ({
              ...container,
              args: [...container.args, policyFlag],
            }))
          : object,
    },
    {
      condition: `semverCompare "<1.30-0" ${SERVER}`,
      change: (object) => first(forServerVersion([object], OLD_SERVER), object),
    },
    { condition: `semverCompare ">=1.28-0" ${SERVER}`, change: withConditions },
  ];
}

function toJsonAction(path: string): string {
  return `{{ toJson .Values.${path} }}`;
}

/** Replaces names of images in a text, which may be an argument. */
function withImages(text: string, placeholders: Placeholders): string {
  return Object.entries(IMAGES).reduce((changed, [key, { reference }]) => {
    const image = placeholders.inline(`{{ template "patchbay.images.${key}" . }}`);
    return changed.replaceAll(reference, image);
  }, text);
}

function templateArgs(
  args: readonly string[],
  key: string,
  placeholders: Placeholders,
): readonly string[] {
  const range = (path: string, entry: string): string =>
    placeholders.lines(`{{- range .Values.${path} }}\n- ${entry}\n{{- end }}`);
  const isBinDir = (arg: string): boolean => arg.startsWith("--cni-bin-dir=");
  const firstBinDir = args.findIndex(isBinDir);
  const changed = args.flatMap((arg, index): readonly string[] => {
    if (isBinDir(arg)) {
      return index === firstBinDir ? [range("netAgent.cniBinDirs", "--cni-bin-dir={{ . }}")] : [];
    }
    if (arg.startsWith("--mode="))
      return [`--mode=${placeholders.inline("{{ .Values.netAgent.mode }}")}`];
    if (arg.startsWith("--dataplane-group=")) {
      const group = placeholders.inline(toJsonAction("virtHandler.dataplaneGroup"));
      return [`--dataplane-group=${group}`];
    }
    return [withImages(arg, placeholders)];
  });
  return [...changed, range(`${key}.extraArgs`, "{{ toJson . }}")];
}

/** Path on the node of a volume, by the volume's name, if it is a value. */
const VOLUME_PATHS: Readonly<Record<string, string>> = {
  pods: "{{ .Values.kubeletRootDir }}/pods",
  "pod-resources": "{{ .Values.kubeletRootDir }}/pod-resources",
  plugins: "{{ .Values.netAgent.runtimeBinDir }}",
  "network-configs": "{{ .Values.netAgent.runtimeConfigDir }}",
};
const DEFAULT_PATHS: readonly string[] = [
  `${KUBELET_DIR}/pods`,
  `${KUBELET_DIR}/pod-resources`,
  "/opt/cni/bin",
  "/etc/cni/net.d",
];

function templateVolume(volume: HostVolume, placeholders: Placeholders): HostVolume {
  const action = VOLUME_PATHS[volume.name];
  const { hostPath } = volume;
  if (action === undefined || hostPath === undefined) return volume;
  if (!DEFAULT_PATHS.includes(hostPath.path)) {
    throw new Error(`volume ${volume.name} has the unknown path ${hostPath.path}`);
  }
  return { ...volume, hostPath: { ...hostPath, path: placeholders.inline(action) } };
}

function templateWorkload(object: KubeObject, key: string, placeholders: Placeholders): KubeObject {
  if (!isWorkload(object)) return object;
  const { spec } = object;
  const { template } = spec;
  const pod = template.spec;
  const [container] = pod.containers;
  const isAgent = "appArmorProfile" in container.securityContext || pod["hostPID"] === true;
  const selinux = placeholders.lines(
    "{{- if .Values.selinuxType }}\nseLinuxOptions:\n  type: {{ .Values.selinuxType }}\n{{- end }}",
  );
  const pullSecrets = placeholders.lines(
    "{{- if .Values.images.pullSecrets }}\nimagePullSecrets:\n{{- range .Values.images.pullSecrets }}\n  - name: {{ toJson . }}\n{{- end }}\n{{- end }}",
  );
  const changed = {
    ...pod,
    [pullSecrets]: null,
    nodeSelector: placeholders.inline(toJsonAction(`${key}.nodeSelector`)),
    tolerations: placeholders.inline(toJsonAction(`${key}.tolerations`)),
    containers: [
      {
        ...container,
        image: withImages(container.image, placeholders),
        imagePullPolicy: placeholders.inline("{{ .Values.images.pullPolicy }}"),
        args: templateArgs(container.args, key, placeholders),
        resources: placeholders.inline(toJsonAction(`${key}.resources`)),
        securityContext: {
          ...container.securityContext,
          ...(isAgent && { [selinux]: null }),
        },
      },
    ],
    ...(pod.volumes !== undefined && {
      volumes: pod.volumes.map((volume) => templateVolume(volume, placeholders)),
    }),
  };
  const replicas = placeholders.inline(toJsonAction(`${key}.replicas`));
  return {
    ...object,
    spec: {
      ...spec,
      ...(spec.replicas !== undefined && { replicas }),
      template: { ...template, spec: changed },
    },
  } as KubeObject;
}

/** Adds the labels by which Helm's users find the objects of a release. */
export function withHelmLabels(
  object: KubeObject,
  { name, version }: ChartIdentity,
  placeholders: Placeholders,
): KubeObject {
  const labels = {
    ...object.metadata.labels,
    "helm.sh/chart": `${name}-${version.replaceAll("+", "_")}`,
    "app.kubernetes.io/instance": placeholders.inline("{{ toJson .Release.Name }}"),
    "app.kubernetes.io/managed-by": placeholders.inline("{{ toJson .Release.Service }}"),
    "app.kubernetes.io/version": version,
  };
  return { ...object, metadata: { ...object.metadata, labels } };
}

/** Returns the name of the values of a workload. */
function keyOf(object: KubeObject): string {
  const found = Object.entries(SERVICES).find(([, name]) => name === object.metadata.name);
  if (found === undefined) throw new Error(`${object.metadata.name} has no values`);
  return found[0];
}

/** Condition under which the chart contains an object of the base; undefined if it always does. */
function conditionOf({ kind, metadata }: KubeObject): string | undefined {
  if (kind === "Namespace") return ".Values.createNamespace";
  if (kind !== "PodDisruptionBudget") return undefined;
  const key = keyOf({ apiVersion: "", kind, metadata });
  return `ne (printf "%v" .Values.${key}.replicas) "1"`;
}

function printObject(object: KubeObject, identity: ChartIdentity): string {
  const placeholders = new Placeholders();
  const workload = isWorkload(object)
    ? templateWorkload(object, keyOf(object), placeholders)
    : object;
  return placeholders.fill(toYaml(withHelmLabels(workload, identity, placeholders)));
}

function printSource(
  { objects }: Source,
  identity: ChartIdentity,
  variants: readonly Variant[],
): string {
  return objects
    .map((object) => {
      const print = (variant: KubeObject): string => printObject(variant, identity);
      return `---\n${onlyIf(conditionOf(object), printVariants(object, variants, print))}`;
    })
    .join("");
}

/** Sources that the chart contains only if a value is set. */
function listOptional(base: Base): readonly (readonly [condition: string, source: Source])[] {
  return [
    ...base.policyRights.map((source) => [".Values.multiNetworkPolicies", source] as const),
    [".Values.vhostUserPolicy", base.vhostUserPolicy],
    [".Values.monitoring.serviceMonitor", base.serviceMonitor],
    [".Values.monitoring.rules", base.rules],
    [".Values.monitoring.dashboard", base.dashboard],
  ];
}

/** Renders a template for each manifest, by file name. */
export function renderTemplates(base: Base, identity: ChartIdentity): ReadonlyMap<string, string> {
  const variants = listVariants(base);
  const nameOf = ({ path }: Source): string => path.replaceAll("/", "-");
  const print = (source: Source): string => printSource(source, identity, variants);
  return new Map([
    ...base.sources.map((source): [string, string] => [nameOf(source), print(source)]),
    ...listOptional(base).map(([condition, source]): [string, string] => [
      nameOf(source),
      onlyIf(condition, print(source)),
    ]),
  ]);
}
