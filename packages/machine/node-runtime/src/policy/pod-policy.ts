// SPDX-License-Identifier: Apache-2.0
// May this pod run on the node? Pods are other people's: what would give them the node is the product's own only.
import type { Container, Pod, SecurityContext } from "@patchbay/api";
import { hostPathProblems } from "./host-paths.ts";
import { ID_MAX, isUnprivilegedUser } from "./ids.ts";
import { oneOfProblems } from "./one-of.ts";
import { problem, type PodProblem } from "./problem.ts";
import { isProductPod } from "./product.ts";
import { unsupportedProblems } from "./unsupported.ts";

/** Groups below are a system's own, which only an image gives. Source: Debian policy 9.2.2, adduser.conf FIRST_GID. */
const FIRST_FREE_GROUP = 1000;
/** What becomes a directory's name, or part of one. Source: RFC 1123 label, Kubernetes names. */
const LABEL = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;
const SUBDOMAIN = /^[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?$/;
/** Sysctls that are of a pod's namespaces and harm nobody else. Source: Kubernetes "safe sysctls". */
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
    ...problem(!SUBDOMAIN.test(name), "metadata.name", message),
    ...problem(!LABEL.test(namespace), "metadata.namespace", message),
    ...names.flatMap(([field, container]) => {
      const isTwice = seen.has(container);
      seen.add(container);
      const said = isTwice ? "is listed twice" : message;
      return problem(isTwice || !LABEL.test(container), `${field}[${container}].name`, said);
    }),
    ...(spec.volumes ?? []).flatMap((volume) =>
      problem(!LABEL.test(volume.name), `spec.volumes[${volume.name}].name`, message),
    ),
  ];
}

function userProblems(user: number | undefined, field: string): readonly PodProblem[] {
  const isBad = user !== undefined && !isUnprivilegedUser(user);
  return problem(isBad, field, `must be from 1 to ${String(ID_MAX)}: no container runs as root`);
}

/** A group is free, or the user's own: 42 may read what a system's group 42 may. */
function groupProblems(
  group: number | undefined,
  user: number | undefined,
  field: string,
): readonly PodProblem[] {
  if (group === undefined || (group === user && group > 0)) return [];
  const isBad = !Number.isInteger(group) || group < FIRST_FREE_GROUP || group > ID_MAX;
  const free = `${String(FIRST_FREE_GROUP)} to ${String(ID_MAX)}`;
  return problem(isBad, field, `must be the user's own number, or one of ${free}`);
}

function seccompProblems(
  context: Pick<SecurityContext, "seccompProfile"> | undefined,
  field: string,
): readonly PodProblem[] {
  const type = context?.seccompProfile?.type ?? "RuntimeDefault";
  return problem(type !== "RuntimeDefault", `${field}.seccompProfile`, PRODUCT_ONLY);
}

function contextProblems(pod: Pod, own: SecurityContext, at: string): readonly PodProblem[] {
  const user = own.runAsUser ?? pod.spec.securityContext?.runAsUser;
  return [
    ...problem(own.privileged === true, `${at}.privileged`, PRODUCT_ONLY),
    ...problem(
      own.allowPrivilegeEscalation === true,
      `${at}.allowPrivilegeEscalation`,
      PRODUCT_ONLY,
    ),
    ...problem((own.capabilities?.add ?? []).length > 0, `${at}.capabilities.add`, PRODUCT_ONLY),
    ...problem((own.procMount ?? "Default") !== "Default", `${at}.procMount`, PRODUCT_ONLY),
    ...seccompProblems(own, at),
    ...userProblems(own.runAsUser, `${at}.runAsUser`),
    ...groupProblems(own.runAsGroup, user, `${at}.runAsGroup`),
  ];
}

function containerProblems(pod: Pod, container: Container, at: string): readonly PodProblem[] {
  const hasHostPort = container.ports?.some(({ hostPort }) => (hostPort ?? 0) !== 0) === true;
  return [
    ...contextProblems(pod, container.securityContext ?? {}, `${at}.securityContext`),
    ...problem(hasHostPort, `${at}.ports`, "hostPort is not supported"),
    ...(container.volumeMounts ?? []).flatMap(({ name, mountPropagation }) =>
      problem(
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
      problem(!SAFE_SYSCTLS.includes(name), `${at}.sysctls[${name}]`, PRODUCT_ONLY),
    ),
  ];
}

function nodeProblems(pod: Pod): readonly PodProblem[] {
  const { spec } = pod;
  return [
    ...problem(spec.hostNetwork === true, "spec.hostNetwork", PRODUCT_ONLY),
    ...problem(spec.hostPID === true, "spec.hostPID", PRODUCT_ONLY),
    ...problem(spec.hostIPC === true, "spec.hostIPC", PRODUCT_ONLY),
    ...hostPathProblems(pod),
  ];
}

/** Why the pod may not run, all reasons at once; none: it may. */
export function podProblems(pod: Pod): readonly PodProblem[] {
  const { initContainers = [], containers } = pod.spec;
  const common = [...nameProblems(pod), ...oneOfProblems(pod), ...unsupportedProblems(pod)];
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
