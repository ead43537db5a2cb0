// SPDX-License-Identifier: Apache-2.0
// Decides whether a pod may run on the node. Only the product's own pods may have access to the node itself.
import { names } from "@patchbay/api";
import type { Pod, Container, PodVolume, Probe, SecurityContext } from "@patchbay/api/kubernetes";

interface PodProblem {
  /** For example `spec.containers[0].securityContext.privileged`. */
  readonly field: string;
  readonly message: string;
}

function listProblem(isInvalid: boolean, field: string, message: string): readonly PodProblem[] {
  return isInvalid ? [{ field, message }] : [];
}

/** Largest uid and gid; some programs treat larger ones as -1. */
export const ID_MAX = 2 ** 31 - 1;

/** Returns whether the uid is valid and not root. A runtime would look up an invalid number as a user name. */
export function isUnprivilegedUser(user: number): boolean {
  return Number.isInteger(user) && user >= 1 && user <= ID_MAX;
}

/** Service accounts of the product. Permission to use them in the product's namespace includes access to the node. */
const PRODUCT_ACCOUNTS: readonly string[] = [
  "virt-api",
  "virt-controller",
  "virt-handler",
  "net-agent",
];

export function isProductPod({ metadata, spec }: Pod): boolean {
  return (
    metadata.namespace === names.SERVICES_NAMESPACE &&
    PRODUCT_ACCOUNTS.includes(spec.serviceAccountName ?? "")
  );
}

const HOST_PATH_RULE = `is for Patchbay's own pods only, except type Directory for pods whose containers all run as user and group ${String(names.LAUNCHER_UID)}`;

/** Returns whether all users and groups of the pod are the launchers'. */
function runsAsLaunchers({ spec }: Pod): boolean {
  const { fsGroup, supplementalGroups = [], ...shared } = spec.securityContext ?? {};
  const groups = fsGroup === undefined ? supplementalGroups : [fsGroup, ...supplementalGroups];
  const users = [...(spec.initContainers ?? []), ...spec.containers].flatMap(
    ({ securityContext: own }) => [
      own?.runAsUser ?? shared.runAsUser,
      own?.runAsGroup ?? shared.runAsGroup,
    ],
  );
  return [...users, ...groups].every((id) => id === names.LAUNCHER_UID);
}

/** Checks host paths. Launcher-like pods may mount those that an administrator opened to VMs, checked at mount time. */
function hostPathProblems(pod: Pod): readonly PodProblem[] {
  const isLauncherLike = runsAsLaunchers(pod);
  return (pod.spec.volumes ?? []).flatMap(({ name, hostPath }) => {
    const isDenied = hostPath !== undefined && !(isLauncherLike && hostPath.type === "Directory");
    return listProblem(isDenied, `spec.volumes[${name}].hostPath`, HOST_PATH_RULE);
  });
}

const HANDLERS = [
  "exec",
  "httpGet",
  "tcpSocket",
  "grpc",
] as const satisfies readonly (keyof Probe)[];

/** Lists the fields that are set. A server may write null into unset fields. */
function listSetFields(fields: object, except: readonly string[] = []): readonly string[] {
  return Object.entries(fields)
    .filter(([key, value]) => value !== undefined && value !== null && !except.includes(key))
    .map(([key]) => key);
}

function checkExclusive(setFields: readonly string[], field: string): readonly PodProblem[] {
  return listProblem(setFields.length > 1, field, `must be one of ${setFields.join(", ")}`);
}

function findAmbiguousVolumeFields(volume: PodVolume): readonly PodProblem[] {
  const at = `spec.volumes[${volume.name}]`;
  const sources = volume.projected?.sources ?? [];
  const downwardItems = [volume, ...sources].flatMap(({ downwardAPI }) => downwardAPI?.items ?? []);
  return [
    ...checkExclusive(listSetFields(volume, ["name"]), at),
    ...sources.flatMap((source, index) =>
      checkExclusive(listSetFields(source), `${at}.projected.sources[${String(index)}]`),
    ),
    ...downwardItems.flatMap((item) =>
      checkExclusive(listSetFields(item, ["path", "mode"]), `${at}.downwardAPI`),
    ),
  ];
}

function findAmbiguousContainerFields(container: Container, at: string): readonly PodProblem[] {
  const { env = [], envFrom = [], livenessProbe, readinessProbe, startupProbe } = container;
  const probes = Object.entries({ livenessProbe, readinessProbe, startupProbe });
  return [
    ...env.flatMap(({ name, valueFrom, value = "" }) => {
      const setFields = listSetFields(valueFrom ?? {});
      const all = value === "" || setFields.length === 0 ? setFields : ["value", ...setFields];
      return checkExclusive(all, `${at}.env[${name}]`);
    }),
    ...envFrom.flatMap((from, index) =>
      checkExclusive(listSetFields(from, ["prefix"]), `${at}.envFrom[${String(index)}]`),
    ),
    ...probes.flatMap(([name, probe]) => {
      const setFields = listSetFields(probe ?? {}).filter((key) =>
        HANDLERS.some((one) => one === key),
      );
      return checkExclusive(setFields, `${at}.${name}`);
    }),
  ];
}

/** Finds exclusive fields that are set together. Other checks may read only one of them. Only our API server rejects them. */
function findAmbiguousFields({ spec }: Pod): readonly PodProblem[] {
  const { initContainers = [], containers, volumes = [] } = spec;
  return [
    ...volumes.flatMap(findAmbiguousVolumeFields),
    ...initContainers.flatMap((one) =>
      findAmbiguousContainerFields(one, `spec.initContainers[${one.name}]`),
    ),
    ...containers.flatMap((one) =>
      findAmbiguousContainerFields(one, `spec.containers[${one.name}]`),
    ),
  ];
}

const UNSUPPORTED = "is not supported";

/** Pattern of a key of a ConfigMap: a single file name. */
const CONFIG_MAP_KEY = /^[\w-][\w.-]*$/;
const ONLY_CONFIG_MAP_KEYS = "is supported only for a key of a configMap";

/** Returns whether the path is a key of a ConfigMap. Containers could replace other paths with links to the node's files. */
function isConfigMapKey(subPath: string, volume: string, volumes: readonly PodVolume[]): boolean {
  const isConfigMapVolume = volumes.some(
    ({ name, configMap }) => name === volume && configMap !== undefined,
  );
  return isConfigMapVolume && CONFIG_MAP_KEY.test(subPath);
}

function mountProblems(
  { volumeMounts = [] }: Container,
  at: string,
  volumes: readonly PodVolume[],
): readonly PodProblem[] {
  return volumeMounts.flatMap(({ name, mountPath, subPath = "", subPathExpr = "" }) => {
    const field = `${at}.volumeMounts[${name}]`;
    const isRefused = subPath !== "" && !isConfigMapKey(subPath, name, volumes);
    return [
      ...listProblem(isRefused, `${field}.subPath`, ONLY_CONFIG_MAP_KEYS),
      ...listProblem(subPathExpr !== "", `${field}.subPathExpr`, UNSUPPORTED),
      ...listProblem(!mountPath.startsWith("/"), `${field}.mountPath`, "must be absolute"),
    ];
  });
}

function findUnsupportedContainerFields(
  container: Container,
  at: string,
  volumes: readonly PodVolume[],
): readonly PodProblem[] {
  const { lifecycle, restartPolicy, volumeDevices = [] } = container;
  return [
    ...listProblem(lifecycle?.postStart !== undefined, `${at}.lifecycle.postStart`, UNSUPPORTED),
    ...listProblem(lifecycle?.preStop !== undefined, `${at}.lifecycle.preStop`, UNSUPPORTED),
    ...listProblem(restartPolicy !== undefined, `${at}.restartPolicy`, UNSUPPORTED),
    ...mountProblems(container, at, volumes),
    ...volumeDevices.flatMap(({ name, devicePath }) => {
      const field = `${at}.volumeDevices[${name}].devicePath`;
      return listProblem(!devicePath.startsWith("/"), field, "must be absolute");
    }),
  ];
}

/** Finds unsupported fields. The pod would not run as requested if they were ignored. */
function findUnsupportedFields({ spec }: Pod): readonly PodProblem[] {
  const { initContainers = [], containers, volumes = [] } = spec;
  const listContainerProblems = (all: readonly Container[], list: string): readonly PodProblem[] =>
    all.flatMap((one) => findUnsupportedContainerFields(one, `spec.${list}[${one.name}]`, volumes));
  return [
    ...listContainerProblems(initContainers, "initContainers"),
    ...listContainerProblems(containers, "containers"),
  ];
}

/** Lowest group that does not belong to the operating system. Source: Debian policy 9.2.2, FIRST_GID of adduser.conf. */
const FIRST_FREE_GROUP = 1000;
// Patterns of names that become directory names. Source: RFC 1123; names of Kubernetes objects.
const LABEL = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;
const SUBDOMAIN = /^[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?$/;
/** Namespaced sysctls that affect only the pod. Source: "safe sysctls" of Kubernetes. */
const SAFE_SYSCTLS: readonly string[] = [
  "kernel.shm_rmid_forced",
  "net.ipv4.ip_local_port_range",
  "net.ipv4.ip_unprivileged_port_start",
  "net.ipv4.ping_group_range",
  "net.ipv4.tcp_syncookies",
];
const PRODUCT_ONLY = "is for Patchbay's own pods only";

function nameProblems({ metadata, spec }: Pod): readonly PodProblem[] {
  const message = "is not a valid name";
  const { name, namespace = "" } = metadata;
  const seen = new Set<string>();
  const names = [
    ...(spec.initContainers ?? []).map((one) => ["spec.initContainers", one.name] as const),
    ...spec.containers.map((one) => ["spec.containers", one.name] as const),
  ];
  return [
    ...listProblem(!SUBDOMAIN.test(name), "metadata.name", message),
    ...listProblem(!LABEL.test(namespace), "metadata.namespace", message),
    ...names.flatMap(([field, container]) => {
      const isDuplicate = seen.has(container);
      seen.add(container);
      const text = isDuplicate ? "is listed twice" : message;
      return listProblem(
        isDuplicate || !LABEL.test(container),
        `${field}[${container}].name`,
        text,
      );
    }),
    ...(spec.volumes ?? []).flatMap((volume) =>
      listProblem(!LABEL.test(volume.name), `spec.volumes[${volume.name}].name`, message),
    ),
  ];
}

function userProblems(user: number | undefined, field: string): readonly PodProblem[] {
  const isInvalid = user !== undefined && !isUnprivilegedUser(user);
  return listProblem(
    isInvalid,
    field,
    `must be from 1 to ${String(ID_MAX)}: no container runs as root`,
  );
}

/** Allows the user's own group and free groups. Others could read the operating system's files. */
function groupProblems(
  group: number | undefined,
  user: number | undefined,
  field: string,
): readonly PodProblem[] {
  if (group === undefined || (group === user && group > 0)) return [];
  const isInvalid = !Number.isInteger(group) || group < FIRST_FREE_GROUP || group > ID_MAX;
  const range = `${String(FIRST_FREE_GROUP)} to ${String(ID_MAX)}`;
  return listProblem(isInvalid, field, `must be the user's own number, or one of ${range}`);
}

function seccompProblems(
  context: Pick<SecurityContext, "seccompProfile"> | undefined,
  field: string,
): readonly PodProblem[] {
  const type = context?.seccompProfile?.type ?? "RuntimeDefault";
  return listProblem(type !== "RuntimeDefault", `${field}.seccompProfile`, PRODUCT_ONLY);
}

function contextProblems(pod: Pod, own: SecurityContext, at: string): readonly PodProblem[] {
  const user = own.runAsUser ?? pod.spec.securityContext?.runAsUser;
  return [
    ...listProblem(own.privileged === true, `${at}.privileged`, PRODUCT_ONLY),
    ...listProblem(
      own.allowPrivilegeEscalation === true,
      `${at}.allowPrivilegeEscalation`,
      PRODUCT_ONLY,
    ),
    ...listProblem(
      (own.capabilities?.add ?? []).length > 0,
      `${at}.capabilities.add`,
      PRODUCT_ONLY,
    ),
    ...listProblem((own.procMount ?? "Default") !== "Default", `${at}.procMount`, PRODUCT_ONLY),
    ...seccompProblems(own, at),
    ...userProblems(own.runAsUser, `${at}.runAsUser`),
    ...groupProblems(own.runAsGroup, user, `${at}.runAsGroup`),
  ];
}

function containerProblems(pod: Pod, container: Container, at: string): readonly PodProblem[] {
  const hasHostPort = container.ports?.some(({ hostPort }) => (hostPort ?? 0) !== 0) === true;
  return [
    ...contextProblems(pod, container.securityContext ?? {}, `${at}.securityContext`),
    ...listProblem(hasHostPort, `${at}.ports`, "hostPort is not supported"),
    ...(container.volumeMounts ?? []).flatMap(({ name, mountPropagation }) =>
      listProblem(
        mountPropagation === "Bidirectional",
        `${at}.volumeMounts[${name}].mountPropagation`,
        PRODUCT_ONLY,
      ),
    ),
  ];
}

function podContextProblems({ spec }: Pod): readonly PodProblem[] {
  const at = "spec.securityContext";
  const { runAsUser, runAsGroup, fsGroup, supplementalGroups = [] } = spec.securityContext ?? {};
  const sysctls = spec.securityContext?.sysctls ?? [];
  return [
    ...userProblems(runAsUser, `${at}.runAsUser`),
    ...groupProblems(runAsGroup, runAsUser, `${at}.runAsGroup`),
    ...groupProblems(fsGroup, runAsUser, `${at}.fsGroup`),
    ...supplementalGroups.flatMap((group) =>
      groupProblems(group, runAsUser, `${at}.supplementalGroups`),
    ),
    ...seccompProblems(spec.securityContext, at),
    ...sysctls.flatMap(({ name }) =>
      listProblem(!SAFE_SYSCTLS.includes(name), `${at}.sysctls[${name}]`, PRODUCT_ONLY),
    ),
  ];
}

function nodeProblems(pod: Pod): readonly PodProblem[] {
  const { spec } = pod;
  return [
    ...listProblem(spec.hostNetwork === true, "spec.hostNetwork", PRODUCT_ONLY),
    ...listProblem(spec.hostPID === true, "spec.hostPID", PRODUCT_ONLY),
    ...listProblem(spec.hostIPC === true, "spec.hostIPC", PRODUCT_ONLY),
    ...hostPathProblems(pod),
  ];
}

export function podProblems(pod: Pod): readonly PodProblem[] {
  const { initContainers = [], containers } = pod.spec;
  const common = [...nameProblems(pod), ...findAmbiguousFields(pod), ...findUnsupportedFields(pod)];
  if (isProductPod(pod)) return common;
  return [
    ...common,
    ...nodeProblems(pod),
    ...podContextProblems(pod),
    ...initContainers.flatMap((one) =>
      containerProblems(pod, one, `spec.initContainers[${one.name}]`),
    ),
    ...containers.flatMap((one) => containerProblems(pod, one, `spec.containers[${one.name}]`)),
  ];
}
