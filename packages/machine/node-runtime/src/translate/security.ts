// SPDX-License-Identifier: Apache-2.0
// What may the processes of a container do?
import type { Container, Pod, SecurityContext } from "@patchbay/api";
import { AppError } from "@patchbay/core";
import type {
  ContainerImage,
  ContainerSecurity,
  NamespaceOptions,
  SandboxConfig,
  SecurityProfile,
} from "@patchbay/core/ports";
import { ID_MAX, isUnprivilegedUser } from "../policy/ids.ts";
import { isProductPod } from "../policy/product.ts";

/** Source: Kubernetes securitycontext, default proc mount: what a container does not see. */
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
/** Source: Kubernetes securitycontext, default proc mount: what a container does not write. */
const READONLY_PATHS = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

function isPrivileged({ securityContext }: Container): boolean {
  return securityContext?.privileged === true;
}

/** Namespaces of a pod. */
function namespacesOf({ spec }: Pod): NamespaceOptions {
  const own = spec.shareProcessNamespace === true ? "POD" : "CONTAINER";
  return {
    network: spec.hostNetwork === true ? "NODE" : "POD",
    pid: spec.hostPID === true ? "NODE" : own,
    ipc: spec.hostIPC === true ? "NODE" : "POD",
  };
}

/** Without asking, everybody has runc's default profile; only the product's pods are asked what they want. */
function seccompOf(pod: Pod, container?: Container): SecurityProfile {
  const asked =
    container?.securityContext?.seccompProfile ?? pod.spec.securityContext?.seccompProfile;
  return isProductPod(pod) && asked?.type === "Unconfined" ? "Unconfined" : "RuntimeDefault";
}

function groupsOf({ spec }: Pod): readonly number[] {
  const { supplementalGroups = [], fsGroup } = spec.securityContext ?? {};
  return [...new Set([...supplementalGroups, ...(fsGroup === undefined ? [] : [fsGroup])])];
}

/** The sandbox's part: whose namespaces, and as whom its first process runs. */
export function sandboxSecurityOf(pod: Pod): SandboxConfig["security"] {
  const { runAsUser, runAsGroup } = pod.spec.securityContext ?? {};
  const all = [...(pod.spec.initContainers ?? []), ...pod.spec.containers];
  return {
    namespaces: namespacesOf(pod),
    ...(runAsUser !== undefined && { runAsUser, runAsGroup: runAsGroup ?? runAsUser }),
    supplementalGroups: groupsOf(pod),
    readonlyRootfs: true,
    privileged: all.some(isPrivileged),
    seccomp: seccompOf(pod),
  };
}

type User = Pick<ContainerSecurity, "runAsUser" | "runAsGroup" | "runAsUsername">;

function refusal(container: Container, reason: string): AppError {
  return new AppError("RUNTIME_CONTAINER_REFUSED", { container: container.name, reason });
}

/** As whom a container of the image runs when the pod does not say. */
function imageUserOf(
  container: Container,
  { uid, username }: ContainerImage,
  mayBeRoot: boolean,
): User {
  if (uid !== undefined && isUnprivilegedUser(uid)) return { runAsUser: uid };
  if (uid === undefined && username !== "") {
    if (mayBeRoot) return { runAsUsername: username };
    const reason = `its image runs as ${username}, which may be root: set securityContext.runAsUser`;
    throw refusal(container, reason);
  }
  if (uid !== undefined && uid !== 0) {
    const reason = `its image runs as ${String(uid)}, which is not a valid user number (1 to ${String(ID_MAX)}): set securityContext.runAsUser`;
    throw refusal(container, reason);
  }
  if (mayBeRoot) return { runAsUser: 0 };
  const reason = "its image runs as root, which no container may do: set securityContext.runAsUser";
  throw refusal(container, reason);
}

/** What the container says, else what its pod says. */
function contextOf({ spec }: Pod, { securityContext: own }: Container): SecurityContext {
  const shared = spec.securityContext;
  return { ...shared, ...Object.fromEntries(Object.entries(own ?? {}).filter(isSet)) };
}

function isSet([, value]: readonly [string, unknown]): boolean {
  return value !== undefined && value !== null;
}

/**
 * As whom a container runs. Where no group is named it is the user's own number, not what the image has for the user: that
 * is any group that its author likes, and root's where the image knows no such user.
 * @throws AppError with RUNTIME_CONTAINER_REFUSED when that would be root, or cannot be known not to be
 */
function userOf(pod: Pod, container: Container, image: ContainerImage): User {
  const { runAsUser, runAsGroup, runAsNonRoot } = contextOf(pod, container);
  const mayBeRoot = isProductPod(pod) && runAsNonRoot !== true;
  const user = runAsUser === undefined ? imageUserOf(container, image, mayBeRoot) : { runAsUser };
  if (user.runAsUser === 0 && !mayBeRoot) {
    throw refusal(container, "it would run as root: set securityContext.runAsUser");
  }
  const group = runAsGroup ?? user.runAsUser;
  return { ...user, ...(group !== undefined && { runAsGroup: group }) };
}

/** What others than the product's pods have: nothing. */
function capabilitiesOf(pod: Pod, container: Container): ContainerSecurity["capabilities"] {
  if (!isProductPod(pod)) return { add: [], drop: ["ALL"] };
  const { add = [], drop = [] } = container.securityContext?.capabilities ?? {};
  return { add, drop };
}

/**
 * What a container's processes may do.
 * @throws AppError with RUNTIME_CONTAINER_REFUSED
 */
export function containerSecurityOf(
  pod: Pod,
  container: Container,
  image: ContainerImage,
): ContainerSecurity {
  const own = container.securityContext;
  const privileged = isProductPod(pod) && isPrivileged(container);
  const mayGain = isProductPod(pod) && own?.allowPrivilegeEscalation !== false;
  return {
    namespaces: namespacesOf(pod),
    capabilities: capabilitiesOf(pod, container),
    privileged,
    ...userOf(pod, container, image),
    readonlyRootfs: own?.readOnlyRootFilesystem === true,
    supplementalGroups: groupsOf(pod),
    noNewPrivileges: !mayGain,
    maskedPaths: privileged ? [] : MASKED_PATHS,
    readonlyPaths: privileged ? [] : READONLY_PATHS,
    seccomp: privileged ? "Unconfined" : seccompOf(pod, container),
  };
}
