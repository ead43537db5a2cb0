// SPDX-License-Identifier: Apache-2.0
// Which flags do several commands take?
import type { FlagSpec } from "../command.ts";

/** Of all commands. */
export const GLOBAL_FLAGS: readonly FlagSpec[] = [
  {
    flags: "--kubeconfig <file>",
    description: "the API server to use; else $KUBECONFIG, the data directory's, ~/.kube/config",
    values: "files",
  },
  {
    flags: "-n, --namespace <name>",
    description: "namespace; else the kubeconfig's, or default",
    values: "namespaces",
  },
  {
    flags: "--data-dir <dir>",
    description: "data directory of the standalone machine",
    values: "directories",
  },
];

/** Of commands that ask for a change. */
export const WAIT: readonly FlagSpec[] = [
  { flags: "--wait", description: "wait until it is done and show each phase with its time" },
  {
    flags: "--timeout <duration>",
    description: "how long to wait",
    kind: "duration",
    fallback: "120s",
  },
];

/** Of commands that know VMIs without a VM too. */
export const VMI: FlagSpec = {
  flags: "--vmi",
  description: "the name is a VirtualMachineInstance's, also when there is a VM of that name",
};

/** Of commands about one interface, which is there or not. */
export const IFACE_NAME: FlagSpec = {
  flags: "--name <name>",
  description: "name of the interface in the VM",
  required: true,
};
