// SPDX-License-Identifier: Apache-2.0
// The container of a launcher whose log is what the guest prints on its serial console. Source: KubeVirt
// guest-console-log, pkg/virt-controller/services/serialconsolelog.go.
import { names, type Container, type SecurityContext, type VmiSpec } from "@patchbay/api";
import { hasConsole } from "../../spec/guest-devices.ts";

/** What a container is made of that is the same for all of a launcher. */
export interface LogParts {
  readonly image: string;
  readonly securityContext: SecurityContext;
  /** Whether guests have it that do not say. Source: KubeVirt virtualMachineOptions.disableSerialConsoleLog. */
  readonly logsConsoles: boolean;
}

/** A shell and `tail`; a guest that prints as much as it can gets no more. Disk: what the node keeps of a log. */
const RESOURCES = {
  requests: { cpu: "5m", memory: "8Mi", "ephemeral-storage": "1Mi" },
  limits: { cpu: "100m", memory: "32Mi", "ephemeral-storage": "51Mi" },
};

/** Whether what the guest prints is a container's log. */
function isLogged(spec: VmiSpec, byDefault: boolean): boolean {
  return hasConsole(spec) && (spec.domain.devices?.logSerialConsole ?? byDefault);
}

/** None, or the one. It may read where the console's log is, and write nothing. */
export function consoleLogOf(spec: VmiSpec, parts: LogParts): readonly Container[] {
  const { image, securityContext, logsConsoles } = parts;
  if (!isLogged(spec, logsConsoles)) return [];
  return [
    {
      name: names.CONSOLE_LOG_CONTAINER,
      image,
      imagePullPolicy: "IfNotPresent",
      command: ["/usr/bin/virt-tail"],
      resources: RESOURCES,
      securityContext,
      volumeMounts: [
        { name: names.LAUNCHER_VOLUME, mountPath: names.LAUNCHER_DIR, readOnly: true },
      ],
    },
  ];
}
