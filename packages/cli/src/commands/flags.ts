// SPDX-License-Identifier: Apache-2.0
// Flags that several commands share.
import type { FlagSpec } from "../command.ts";

export const GLOBAL_FLAGS: readonly FlagSpec[] = [
  {
    flags: "--kubeconfig <file>",
    description:
      "kubeconfig of the API server (default: $KUBECONFIG, else the data directory's, else ~/.kube/config)",
    values: "files",
  },
  {
    flags: "-n, --namespace <name>",
    description: "namespace (default: the kubeconfig's, else default)",
    values: "namespaces",
  },
  {
    flags: "--data-dir <dir>",
    description: "data directory of the standalone machine",
    values: "directories",
  },
];

function waitFlags(fallback: string): readonly FlagSpec[] {
  return [
    {
      flags: "--wait",
      description: "wait until the change is done, and show each phase with its time",
    },
    { flags: "--timeout <duration>", description: "how long to wait", kind: "duration", fallback },
  ];
}

export const WAIT = waitFlags("120s");

/** Wait flags with a longer time limit, because a migration takes longer than other changes. */
export const WAIT_LONG = waitFlags("10m");

/** Flag of commands that can also change or show a VMI directly, even if a VM has the same name. */
export const VMI: FlagSpec = {
  flags: "--vmi",
  description: "use the VirtualMachineInstance of that name, even if a VM has the same name",
};

export const IFACE_NAME: FlagSpec = {
  flags: "--name <name>",
  description: "name of the interface in the VM",
  required: true,
};

export const DRY_RUN: FlagSpec = {
  flags: "--dry-run",
  description: "only show whether the API server would accept the change, and when it takes effect",
  conflicts: ["wait", "check"],
};
