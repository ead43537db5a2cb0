// SPDX-License-Identifier: Apache-2.0
// Which flags do several commands take?
import type { FlagSpec } from "../command.ts";

/** Of all commands. */
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

function waitAtMost(fallback: string): readonly FlagSpec[] {
  return [
    {
      flags: "--wait",
      description: "wait until the change is done, and show each phase with its time",
    },
    { flags: "--timeout <duration>", description: "how long to wait", kind: "duration", fallback },
  ];
}

/** Of commands that ask for a change. */
export const WAIT = waitAtMost("120s");

/** Of those that move a guest's memory: 150 s for each GiB is what a migration is given. */
export const WAIT_LONG = waitAtMost("10m");

/** Of commands that know VMIs without a VM too. */
export const VMI: FlagSpec = {
  flags: "--vmi",
  description: "take the name as a VirtualMachineInstance's, even when a VM has the same name",
};

/** Of commands about one interface, which is there or not. */
export const IFACE_NAME: FlagSpec = {
  flags: "--name <name>",
  description: "name of the interface in the VM",
  required: true,
};

/** Of commands about one interface: the API server judges the request and changes nothing. */
export const DRY_RUN: FlagSpec = {
  flags: "--dry-run",
  description: "only show whether the API server would accept the change, and when it takes effect",
  conflicts: ["wait", "check"],
};
