// SPDX-License-Identifier: Apache-2.0
// Decides whether a pod may run on the node. Only Patchbay's own pods may have access to the node itself.
import { names } from "@patchbay/api";
import type { Pod, Container, PodVolume, Probe, SecurityContext } from "@patchbay/api/kubernetes";

interface PodProblem {
  /** For example `spec.containers[0].securityContext.privileged`. */
  readonly field: string;
  readonly message: string;
}

function listProblemIf(isInvalid: boolean, field: string, message: string): readonly PodProblem[] {
  return isInvalid ? [{ field, message }] : [];
}

/** Largest valid uid and gid. Some programs treat larger values as -1. */
export const ID_MAX = 2 ** 31 - 1;

/** Returns whether the uid is valid and not 0. A runtime could resolve an invalid uid as a user name. */
export function isUnprivilegedUser(user: number): boolean {
  return Number.isInteger(user) && user >= 1 && user <= ID_MAX;
}

/** Service accounts of Patchbay. Pods that use them in Patchbay's namespace may access the node. */
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

const HOST_PATH_MESSAGE = `is for Patchbay's own pods only, except type Directory for pods whose containers all run as user and group ${String(names.LAUNCHER_UID)}`;

/** Returns whether all uids and gids of the pod equal the launchers' uid. */
function runsAsLaunchers({ spec }: Pod): boolean {
  const { fsGroup, supplementalGroups = [], ...podContext } = spec.securityContext ?? {};
  const groups = fsGroup === undefined ? supplementalGroups : [fsGroup, ...supplementalGroups];
  const users = [...(spec.initContainers ?? []), ...spec.containers].flatMap(
    ({ securityContext: containerContext }) => [
      containerContext?.runAsUser ?? podContext.runAsUser,
      containerContext?.runAsGroup ?? podContext.runAsGroup,
    ],
  );
  return [...users, ...groups].every((id) => id === names.LAUNCHER_UID);
}

/** Rejects host paths, except type Directory in pods that run as the launchers' user. Those paths are checked when they are mounted. */
function findHostPathProblems(pod: Pod): readonly PodProblem[] {
  const isLauncherLike = runsAsLaunchers(pod);
  return (pod.spec.volumes ?? []).flatMap(({ name, hostPath }) => {
    const isDenied = hostPath !== undefined && !(isLauncherLike && hostPath.type === "Directory");
    return listProblemIf(isDenied, `spec.volumes[${name}].hostPath`, HOST_PATH_MESSAGE);
  });
}

const PROBE_HANDLERS = [
  "exec",
  "httpGet",
  "tcpSocket",
  "grpc",
] as const satisfies readonly (keyof Probe)[];

/** Lists the fields that are set. Ignores null, which an API server may write for unset fields. */
function listSetFields(fields: object, excludedKeys: readonly string[] = []): readonly string[] {
  return Object.entries(fields)
    .filter(([key, value]) => value !== undefined && value !== null && !excludedKeys.includes(key))
    .map(([key]) => key);
}

function checkExclusive(setFields: readonly string[], field: string): readonly PodProblem[] {
  return listProblemIf(setFields.length > 1, field, `must be one of ${setFields.join(", ")}`);
}

function findAmbiguousVolumeFields(volume: PodVolume): readonly PodProblem[] {
  const path = `spec.volumes[${volume.name}]`;
  const sources = volume.projected?.sources ?? [];
  const downwardItems = [volume, ...sources].flatMap(({ downwardAPI }) => downwardAPI?.items ?? []);
  return [
    ...checkExclusive(listSetFields(volume, ["name"]), path),
    ...sources.flatMap((source, index) =>
      checkExclusive(listSetFields(source), `${path}.projected.sources[${String(index)}]`),
    ),
    ...downwardItems.flatMap((item) =>
      checkExclusive(listSetFields(item, ["path", "mode"]), `${path}.downwardAPI`),
    ),
  ];
}

function findAmbiguousContainerFields(container: Container, path: string): readonly PodProblem[] {
  const { env = [], envFrom = [], livenessProbe, readinessProbe, startupProbe } = container;
  const probes = Object.entries({ livenessProbe, readinessProbe, startupProbe });
  return [
    ...env.flatMap(({ name, valueFrom, value = "" }) => {
      const setFields = listSetFields(valueFrom ?? {});
      const sources = value === "" || setFields.length === 0 ? setFields : ["value", ...setFields];
      return checkExclusive(sources, `${path}.env[${name}]`);
    }),
    ...envFrom.flatMap((source, index) =>
      checkExclusive(listSetFields(source, ["prefix"]), `${path}.envFrom[${String(index)}]`),
    ),
    ...probes.flatMap(([name, probe]) => {
      const setFields = listSetFields(probe ?? {}).filter((key) =>
        PROBE_HANDLERS.some((handler) => handler === key),
      );
      return checkExclusive(setFields, `${path}.${name}`);
    }),
  ];
}

/** Finds mutually exclusive fields that are set together, because other checks may read only one of these fields. */
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

const UNSUPPORTED_MESSAGE = "is not supported";

/** Pattern of ConfigMap keys, which are plain file names. */
const CONFIG_MAP_KEY = /^[\w-][\w.-]*$/;
const ONLY_CONFIG_MAP_KEYS_MESSAGE = "is supported only for a key of a configMap";

/**
 * Returns whether the volume is a ConfigMap and the subPath is one of its possible keys. All other subPaths are refused, because a
 * container could replace such a path with a link to a file of the node.
 */
function isConfigMapKey(subPath: string, volume: string, volumes: readonly PodVolume[]): boolean {
  const isConfigMapVolume = volumes.some(
    ({ name, configMap }) => name === volume && configMap !== undefined,
  );
  return isConfigMapVolume && CONFIG_MAP_KEY.test(subPath);
}

function findMountProblems(
  { volumeMounts = [] }: Container,
  path: string,
  volumes: readonly PodVolume[],
): readonly PodProblem[] {
  return volumeMounts.flatMap(({ name, mountPath, subPath = "", subPathExpr = "" }) => {
    const field = `${path}.volumeMounts[${name}]`;
    const isRefused = subPath !== "" && !isConfigMapKey(subPath, name, volumes);
    return [
      ...listProblemIf(isRefused, `${field}.subPath`, ONLY_CONFIG_MAP_KEYS_MESSAGE),
      ...listProblemIf(subPathExpr !== "", `${field}.subPathExpr`, UNSUPPORTED_MESSAGE),
      ...listProblemIf(!mountPath.startsWith("/"), `${field}.mountPath`, "must be absolute"),
    ];
  });
}

function findUnsupportedContainerFields(
  container: Container,
  path: string,
  volumes: readonly PodVolume[],
): readonly PodProblem[] {
  const { lifecycle, restartPolicy, volumeDevices = [] } = container;
  return [
    ...listProblemIf(
      lifecycle?.postStart !== undefined,
      `${path}.lifecycle.postStart`,
      UNSUPPORTED_MESSAGE,
    ),
    ...listProblemIf(
      lifecycle?.preStop !== undefined,
      `${path}.lifecycle.preStop`,
      UNSUPPORTED_MESSAGE,
    ),
    ...listProblemIf(restartPolicy !== undefined, `${path}.restartPolicy`, UNSUPPORTED_MESSAGE),
    ...findMountProblems(container, path, volumes),
    ...volumeDevices.flatMap(({ name, devicePath }) => {
      const field = `${path}.volumeDevices[${name}].devicePath`;
      return listProblemIf(!devicePath.startsWith("/"), field, "must be absolute");
    }),
  ];
}

/** Finds fields that node-runtime does not support. A pod with such a field is rejected, because it would not run as requested. */
function findUnsupportedFields({ spec }: Pod): readonly PodProblem[] {
  const { initContainers = [], containers, volumes = [] } = spec;
  const listContainerProblems = (
    listedContainers: readonly Container[],
    list: string,
  ): readonly PodProblem[] =>
    listedContainers.flatMap((one) =>
      findUnsupportedContainerFields(one, `spec.${list}[${one.name}]`, volumes),
    );
  return [
    ...listContainerProblems(initContainers, "initContainers"),
    ...listContainerProblems(containers, "containers"),
  ];
}

/** Lowest gid outside the operating system's range. Source: Debian policy 9.2.2, FIRST_GID of adduser.conf. */
const FIRST_FREE_GROUP = 1000;
// Patterns of names that become directory names. Source: RFC 1123; names of Kubernetes objects.
const LABEL_PATTERN = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;
const SUBDOMAIN_PATTERN = /^[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?$/;
/** Namespaced sysctls that affect only the pod. Source: "safe sysctls" of Kubernetes. */
const SAFE_SYSCTLS: readonly string[] = [
  "kernel.shm_rmid_forced",
  "net.ipv4.ip_local_port_range",
  "net.ipv4.ip_unprivileged_port_start",
  "net.ipv4.ping_group_range",
  "net.ipv4.tcp_syncookies",
];
const PRODUCT_ONLY_MESSAGE = "is for Patchbay's own pods only";

function findNameProblems({ metadata, spec }: Pod): readonly PodProblem[] {
  const message = "is not a valid name";
  const { name, namespace = "" } = metadata;
  const seenNames = new Set<string>();
  const names = [
    ...(spec.initContainers ?? []).map((one) => ["spec.initContainers", one.name] as const),
    ...spec.containers.map((one) => ["spec.containers", one.name] as const),
  ];
  return [
    ...listProblemIf(!SUBDOMAIN_PATTERN.test(name), "metadata.name", message),
    ...listProblemIf(!LABEL_PATTERN.test(namespace), "metadata.namespace", message),
    ...names.flatMap(([field, container]) => {
      const isDuplicate = seenNames.has(container);
      seenNames.add(container);
      const text = isDuplicate ? "is listed twice" : message;
      return listProblemIf(
        isDuplicate || !LABEL_PATTERN.test(container),
        `${field}[${container}].name`,
        text,
      );
    }),
    ...(spec.volumes ?? []).flatMap((volume) =>
      listProblemIf(!LABEL_PATTERN.test(volume.name), `spec.volumes[${volume.name}].name`, message),
    ),
  ];
}

function findUserProblems(user: number | undefined, field: string): readonly PodProblem[] {
  const isInvalid = user !== undefined && !isUnprivilegedUser(user);
  return listProblemIf(
    isInvalid,
    field,
    `must be from 1 to ${String(ID_MAX)}: no container runs as root`,
  );
}

/** Allows the gid that equals the uid, and gids of at least FIRST_FREE_GROUP. Lower gids grant access to system files. */
function findGroupProblems(
  group: number | undefined,
  user: number | undefined,
  field: string,
): readonly PodProblem[] {
  if (group === undefined || (group === user && group > 0)) return [];
  const isInvalid = !Number.isInteger(group) || group < FIRST_FREE_GROUP || group > ID_MAX;
  const range = `${String(FIRST_FREE_GROUP)} to ${String(ID_MAX)}`;
  return listProblemIf(isInvalid, field, `must be the user's own number, or one of ${range}`);
}

function findSeccompProblems(
  context: Pick<SecurityContext, "seccompProfile"> | undefined,
  field: string,
): readonly PodProblem[] {
  const type = context?.seccompProfile?.type ?? "RuntimeDefault";
  return listProblemIf(type !== "RuntimeDefault", `${field}.seccompProfile`, PRODUCT_ONLY_MESSAGE);
}

function findContextProblems(
  pod: Pod,
  context: SecurityContext,
  path: string,
): readonly PodProblem[] {
  const user = context.runAsUser ?? pod.spec.securityContext?.runAsUser;
  return [
    ...listProblemIf(context.privileged === true, `${path}.privileged`, PRODUCT_ONLY_MESSAGE),
    ...listProblemIf(
      context.allowPrivilegeEscalation === true,
      `${path}.allowPrivilegeEscalation`,
      PRODUCT_ONLY_MESSAGE,
    ),
    ...listProblemIf(
      (context.capabilities?.add ?? []).length > 0,
      `${path}.capabilities.add`,
      PRODUCT_ONLY_MESSAGE,
    ),
    ...listProblemIf(
      (context.procMount ?? "Default") !== "Default",
      `${path}.procMount`,
      PRODUCT_ONLY_MESSAGE,
    ),
    ...findSeccompProblems(context, path),
    ...findUserProblems(context.runAsUser, `${path}.runAsUser`),
    ...findGroupProblems(context.runAsGroup, user, `${path}.runAsGroup`),
  ];
}

function findContainerProblems(
  pod: Pod,
  container: Container,
  path: string,
): readonly PodProblem[] {
  const hasHostPort = container.ports?.some(({ hostPort }) => (hostPort ?? 0) !== 0) === true;
  return [
    ...findContextProblems(pod, container.securityContext ?? {}, `${path}.securityContext`),
    ...listProblemIf(hasHostPort, `${path}.ports`, "hostPort is not supported"),
    ...(container.volumeMounts ?? []).flatMap(({ name, mountPropagation }) =>
      listProblemIf(
        mountPropagation === "Bidirectional",
        `${path}.volumeMounts[${name}].mountPropagation`,
        PRODUCT_ONLY_MESSAGE,
      ),
    ),
  ];
}

function findPodContextProblems({ spec }: Pod): readonly PodProblem[] {
  const path = "spec.securityContext";
  const { runAsUser, runAsGroup, fsGroup, supplementalGroups = [] } = spec.securityContext ?? {};
  const sysctls = spec.securityContext?.sysctls ?? [];
  return [
    ...findUserProblems(runAsUser, `${path}.runAsUser`),
    ...findGroupProblems(runAsGroup, runAsUser, `${path}.runAsGroup`),
    ...findGroupProblems(fsGroup, runAsUser, `${path}.fsGroup`),
    ...supplementalGroups.flatMap((group) =>
      findGroupProblems(group, runAsUser, `${path}.supplementalGroups`),
    ),
    ...findSeccompProblems(spec.securityContext, path),
    ...sysctls.flatMap(({ name }) =>
      listProblemIf(!SAFE_SYSCTLS.includes(name), `${path}.sysctls[${name}]`, PRODUCT_ONLY_MESSAGE),
    ),
  ];
}

function findNodeProblems(pod: Pod): readonly PodProblem[] {
  const { spec } = pod;
  return [
    ...listProblemIf(spec.hostNetwork === true, "spec.hostNetwork", PRODUCT_ONLY_MESSAGE),
    ...listProblemIf(spec.hostPID === true, "spec.hostPID", PRODUCT_ONLY_MESSAGE),
    ...listProblemIf(spec.hostIPC === true, "spec.hostIPC", PRODUCT_ONLY_MESSAGE),
    ...findHostPathProblems(pod),
  ];
}

export function findPodProblems(pod: Pod): readonly PodProblem[] {
  const { initContainers = [], containers } = pod.spec;
  const common = [
    ...findNameProblems(pod),
    ...findAmbiguousFields(pod),
    ...findUnsupportedFields(pod),
  ];
  if (isProductPod(pod)) return common;
  return [
    ...common,
    ...findNodeProblems(pod),
    ...findPodContextProblems(pod),
    ...initContainers.flatMap((one) =>
      findContainerProblems(pod, one, `spec.initContainers[${one.name}]`),
    ),
    ...containers.flatMap((one) => findContainerProblems(pod, one, `spec.containers[${one.name}]`)),
  ];
}
