// SPDX-License-Identifier: Apache-2.0
// Converts the types of ContainerRuntime to CRI v1 messages. Pure. Omitted fields have their default.
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

function value(number: number | undefined): Wire | undefined {
  return number === undefined ? undefined : { value: number };
}

function profile(type: SecurityProfile): Wire {
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
        runAsUser: value(security.runAsUser),
        runAsGroup: value(security.runAsGroup),
        supplementalGroups: security.supplementalGroups,
        readonlyRootfs: security.readonlyRootfs,
        privileged: security.privileged,
        seccomp: profile(security.seccomp),
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
 * Joins user and group to one user name if both are known, because a runtime adds the groups of the image's /etc/group
 * to a plain user, and no name there contains a colon. `runAsUser` decides the owner of devices. Source: containerd 1.6
 * WithUser, WithAdditionalGIDs, generateUserString, getDeviceUserGroupID.
 */
function fromUser({ runAsUser, runAsGroup, runAsUsername }: ContainerSecurity): Wire {
  const number = { runAsUser: value(runAsUser) };
  return runAsUser === undefined || runAsGroup === undefined
    ? { runAsUsername, ...number, runAsGroup: value(runAsGroup) }
    : { runAsUsername: `${String(runAsUser)}:${String(runAsGroup)}`, ...number };
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
    seccomp: profile(seccomp),
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
    envs: env.map(([key, text]) => ({ key, value: text })),
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
