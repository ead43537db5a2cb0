// SPDX-License-Identifier: Apache-2.0
import type { Container, Pod, SecurityContext } from "@patchbay/api/kubernetes";
import { AppError } from "@patchbay/base";
import type {
  ContainerImage,
  ContainerSecurity,
  NamespaceOptions,
  SandboxConfig,
  SecurityProfile,
} from "@patchbay/core/interfaces";
import { ID_MAX, isUnprivilegedUser, isProductPod } from "../policy/pod-policy.ts";

/** Masked paths of the default proc mount. Source: package securitycontext of Kubernetes. */
const MASKED_PATHS = [
  "/proc/asound",
  "/proc/acpi",
  "/proc/interrupts",
  "/proc/kcore",
  "/proc/keys",
  "/proc/latency_stats",
  "/proc/timer_list",
  "/proc/timer_stats",
  "/proc/sched_debug",
  "/proc/scsi",
  "/sys/devices/virtual/powercap",
  "/sys/firmware",
];
/** Read-only paths of the default proc mount. Source: package securitycontext of Kubernetes. */
const READONLY_PATHS = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

function isPrivileged({ securityContext }: Container): boolean {
  return securityContext?.privileged === true;
}

function buildNamespaceOptions({ spec }: Pod): NamespaceOptions {
  const defaultPidNamespace = spec.shareProcessNamespace === true ? "POD" : "CONTAINER";
  return {
    network: spec.hostNetwork === true ? "NODE" : "POD",
    pid: spec.hostPID === true ? "NODE" : defaultPidNamespace,
    ipc: spec.hostIPC === true ? "NODE" : "POD",
  };
}

/** Returns the seccomp profile. Only Patchbay's own pods can disable the runtime's default profile. */
function findSeccompProfile(pod: Pod, container?: Container): SecurityProfile {
  const requested =
    container?.securityContext?.seccompProfile ?? pod.spec.securityContext?.seccompProfile;
  return isProductPod(pod) && requested?.type === "Unconfined" ? "Unconfined" : "RuntimeDefault";
}

function listGroups({ spec }: Pod): readonly number[] {
  const { supplementalGroups = [], fsGroup } = spec.securityContext ?? {};
  return [...new Set([...supplementalGroups, ...(fsGroup === undefined ? [] : [fsGroup])])];
}

export function toSandboxSecurity(pod: Pod): SandboxConfig["security"] {
  const { runAsUser, runAsGroup } = pod.spec.securityContext ?? {};
  const containers = [...(pod.spec.initContainers ?? []), ...pod.spec.containers];
  return {
    namespaces: buildNamespaceOptions(pod),
    ...(runAsUser !== undefined && { runAsUser, runAsGroup: runAsGroup ?? runAsUser }),
    supplementalGroups: listGroups(pod),
    readonlyRootfs: true,
    privileged: containers.some(isPrivileged),
    seccomp: findSeccompProfile(pod),
  };
}

type User = Pick<ContainerSecurity, "runAsUser" | "runAsGroup" | "runAsUsername">;

function buildRejection(container: Container, reason: string): AppError {
  return new AppError("RUNTIME_CONTAINER_REFUSED", { container: container.name, reason });
}

function findImageUser(
  container: Container,
  { uid, username }: ContainerImage,
  mayBeRoot: boolean,
): User {
  if (uid !== undefined && isUnprivilegedUser(uid)) return { runAsUser: uid };
  if (uid === undefined && username !== "") {
    if (mayBeRoot) return { runAsUsername: username };
    const reason = `its image runs as ${username}, which may be root: set securityContext.runAsUser`;
    throw buildRejection(container, reason);
  }
  if (uid !== undefined && uid !== 0) {
    const reason = `its image runs as ${String(uid)}, which is not a valid user number (1 to ${String(ID_MAX)}): set securityContext.runAsUser`;
    throw buildRejection(container, reason);
  }
  if (mayBeRoot) return { runAsUser: 0 };
  const reason = "its image runs as root, which no container may do: set securityContext.runAsUser";
  throw buildRejection(container, reason);
}

function mergeSecurityContexts(
  { spec }: Pod,
  { securityContext: containerContext }: Container,
): SecurityContext {
  const podContext = spec.securityContext;
  return {
    ...podContext,
    ...Object.fromEntries(Object.entries(containerContext ?? {}).filter(isSet)),
  };
}

function isSet([, value]: readonly [string, unknown]): boolean {
  return value !== undefined && value !== null;
}

/**
 * Returns the user and group. The default gid is the uid, not the image's gid, which the image's author could choose freely.
 * @throws AppError with RUNTIME_CONTAINER_REFUSED if the image's uid is invalid, or if the pod must not run as root but might
 */
function findUser(pod: Pod, container: Container, image: ContainerImage): User {
  const { runAsUser, runAsGroup, runAsNonRoot } = mergeSecurityContexts(pod, container);
  const mayBeRoot = isProductPod(pod) && runAsNonRoot !== true;
  const user = runAsUser === undefined ? findImageUser(container, image, mayBeRoot) : { runAsUser };
  if (user.runAsUser === 0 && !mayBeRoot) {
    throw buildRejection(container, "it would run as root: set securityContext.runAsUser");
  }
  const group = runAsGroup ?? user.runAsUser;
  return { ...user, ...(group !== undefined && { runAsGroup: group }) };
}

function buildCapabilities(pod: Pod, container: Container): ContainerSecurity["capabilities"] {
  if (!isProductPod(pod)) return { add: [], drop: ["ALL"] };
  const { add = [], drop = [] } = container.securityContext?.capabilities ?? {};
  return { add, drop };
}

/** @throws AppError with RUNTIME_CONTAINER_REFUSED */
export function toContainerSecurity(
  pod: Pod,
  container: Container,
  image: ContainerImage,
): ContainerSecurity {
  const context = container.securityContext;
  const privileged = isProductPod(pod) && isPrivileged(container);
  const allowsEscalation = isProductPod(pod) && context?.allowPrivilegeEscalation !== false;
  return {
    namespaces: buildNamespaceOptions(pod),
    capabilities: buildCapabilities(pod, container),
    privileged,
    ...findUser(pod, container, image),
    readonlyRootfs: context?.readOnlyRootFilesystem === true,
    supplementalGroups: listGroups(pod),
    noNewPrivileges: !allowsEscalation,
    maskedPaths: privileged ? [] : MASKED_PATHS,
    readonlyPaths: privileged ? [] : READONLY_PATHS,
    seccomp: privileged ? "Unconfined" : findSeccompProfile(pod, container),
  };
}
