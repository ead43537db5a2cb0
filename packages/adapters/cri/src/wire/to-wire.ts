// SPDX-License-Identifier: Apache-2.0
// Converts the types of ContainerRuntime to CRI v1 messages. Omitted fields get the default of cri.proto.
import type {
  ContainerConfig,
  ContainerMount,
  ContainerResources,
  ContainerSecurity,
  RuntimeFilter,
  SandboxConfig,
  SecurityProfile,
} from "@patchbay/core/interfaces";

type Wire = Readonly<Record<string, unknown>>;

function toWrappedNumber(number: number | undefined): Wire | undefined {
  return number === undefined ? undefined : { value: number };
}

function toSecurityProfile(type: SecurityProfile): Wire {
  return { profileType: type };
}

export function fromSandboxConfig(config: SandboxConfig): Wire {
  const { metadata, hostname, logDirectory, dns, labels, annotations, security } = config;
  return {
    metadata,
    hostname,
    logDirectory,
    labels,
    annotations,
    ...(dns === undefined ? {} : { dnsConfig: dns }),
    linux: {
      cgroupParent: config.cgroupParent,
      sysctls: config.sysctls,
      securityContext: {
        namespaceOptions: security.namespaces,
        runAsUser: toWrappedNumber(security.runAsUser),
        runAsGroup: toWrappedNumber(security.runAsGroup),
        supplementalGroups: security.supplementalGroups,
        readonlyRootfs: security.readonlyRootfs,
        privileged: security.privileged,
        seccomp: toSecurityProfile(security.seccomp),
      },
    },
  };
}

function fromMount({ propagation, ...mount }: ContainerMount): Wire {
  return { ...mount, propagation: `PROPAGATION_${propagation}` };
}

function fromResources({ memoryLimitBytes, ...resources }: ContainerResources): Wire {
  return { ...resources, memoryLimitInBytes: memoryLimitBytes };
}

/**
 * If user and group are set, encodes them as the user name `UID:GID`. With such a name, the runtime adds no groups from the image's
 * /etc/group. `runAsUser` is set too, because it decides the owner of devices. Source: containerd 1.6 WithUser, WithAdditionalGIDs,
 * generateUserString, getDeviceUserGroupID
 */
function fromUser({ runAsUser, runAsGroup, runAsUsername }: ContainerSecurity): Wire {
  const userId = { runAsUser: toWrappedNumber(runAsUser) };
  return runAsUser === undefined || runAsGroup === undefined
    ? { runAsUsername, ...userId, runAsGroup: toWrappedNumber(runAsGroup) }
    : { runAsUsername: `${String(runAsUser)}:${String(runAsGroup)}`, ...userId };
}

function fromSecurity(security: ContainerSecurity): Wire {
  const { capabilities, namespaces, noNewPrivileges, seccomp } = security;
  const { privileged, readonlyRootfs, supplementalGroups } = security;
  const { maskedPaths, readonlyPaths } = security;
  return {
    capabilities: { addCapabilities: capabilities.add, dropCapabilities: capabilities.drop },
    namespaceOptions: namespaces,
    privileged,
    readonlyRootfs,
    supplementalGroups,
    maskedPaths,
    readonlyPaths,
    ...fromUser(security),
    noNewPrivs: noNewPrivileges,
    seccomp: toSecurityProfile(seccomp),
  };
}

export function fromContainerConfig(config: ContainerConfig): Wire {
  const { metadata, image, command, args, workingDir, env, mounts, devices } = config;
  const { labels, annotations, logPath, stdin, stdinOnce, tty, resources, security } = config;
  return {
    metadata,
    command,
    args,
    workingDir,
    devices,
    labels,
    annotations,
    logPath,
    stdin,
    stdinOnce,
    tty,
    image: { image },
    envs: env.map(([key, variable]) => ({ key, value: variable })),
    mounts: mounts.map(fromMount),
    linux: { resources: fromResources(resources), securityContext: fromSecurity(security) },
  };
}

export function fromSandboxFilter({ sandboxId, labels }: RuntimeFilter): Wire {
  return { filter: { id: sandboxId, labelSelector: labels } };
}

export function fromContainerFilter({ sandboxId, labels }: RuntimeFilter): Wire {
  return { filter: { podSandboxId: sandboxId, labelSelector: labels } };
}
