// SPDX-License-Identifier: Apache-2.0
// Which commands are there, with which flags? Data only.

/** Where a shell finds what can stand at a place. */
export type Values =
  | "vms"
  | "networks"
  | "interfaces"
  | "namespaces"
  | "images"
  | "shells"
  | "formats"
  | "files"
  | "directories";

/** A flag of a command. */
export interface FlagSpec {
  /** As commander takes it, for example `--name <name>`. */
  readonly flags: string;
  readonly description: string;
  readonly required?: boolean;
  /** What the value is; text when absent. */
  readonly kind?: "duration" | "port";
  /** Printed in the help; text as the user would type it. */
  readonly fallback?: string;
  /** What completion offers for its value; nothing when absent. */
  readonly values?: Values;
}

/** A command. */
export interface CommandSpec {
  /** One word, or a group and a word, as typed. */
  readonly name: string;
  readonly aliases?: readonly string[];
  /** As commander takes them, for example `<vm>`. */
  readonly args: readonly string[];
  /** What completion offers for each of them. */
  readonly values?: readonly Values[];
  /** Not for people. */
  readonly isHidden?: boolean;
  readonly summary: string;
  readonly flags: readonly FlagSpec[];
}

/** Flags of all commands. */
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

/** Groups of commands. */
export const GROUPS: Readonly<Record<string, string>> = {
  get: "Show objects",
  image: "Manage images of the standalone machine",
};

const WAIT: readonly FlagSpec[] = [
  { flags: "--wait", description: "wait until it is done and show each phase with its time" },
  {
    flags: "--timeout <duration>",
    description: "how long to wait",
    kind: "duration",
    fallback: "120s",
  },
];

const VMI: FlagSpec = {
  flags: "--vmi",
  description: "the name is a VirtualMachineInstance's, also when there is a VM of that name",
};

const IFACE_NAME: FlagSpec = {
  flags: "--name <name>",
  description: "name of the interface in the VM",
  required: true,
};

const KNOWN_IFACE_NAME: FlagSpec = { ...IFACE_NAME, values: "interfaces" };

const MACHINE_COMMANDS: readonly CommandSpec[] = [
  {
    name: "up",
    args: [],
    summary: "Start everything on this machine; returns when it is ready",
    flags: [
      {
        flags: "--api-port <port>",
        description: "TCP port of the API server (default: 6443)",
        kind: "port",
      },
      {
        flags: "--node-name <name>",
        description: "name of this machine's node (default: its host name)",
      },
      {
        flags: "--pod-subnet <cidr>",
        description: "network of the pods, a /24 (default: a free one)",
      },
      {
        flags: "--bridge <name>",
        description: "bridge of the pods on this machine (default: patchbay0)",
      },
      { flags: "--install-service", description: "also start it at boot, by systemd" },
    ],
  },
  {
    name: "down",
    args: [],
    summary: "Shut guests down and stop everything on this machine; data is kept",
    flags: [{ flags: "--purge", description: "delete the data directory too" }],
  },
  {
    name: "apiserver",
    args: [],
    summary:
      "Run the API server alone, in the foreground: for this machine only, https on the loopback address",
    flags: [
      {
        flags: "--port <port>",
        description: "TCP port; 0 takes a free one",
        kind: "port",
        fallback: "6443",
      },
    ],
  },
  {
    name: "restore",
    args: ["<file>"],
    values: ["files"],
    summary: "Replace all objects of a machine that is down by those of a backup",
    flags: [],
  },
  {
    name: "image add",
    args: ["<name>", "<directory>"],
    values: ["images", "directories"],
    summary: "Copy a directory into an image that VMs can name",
    flags: [],
  },
  {
    name: "image list",
    args: [],
    summary: "List images",
    flags: [],
  },
  {
    name: "image remove",
    args: ["<name>"],
    values: ["images"],
    summary: "Remove an image that no VM and no pod names",
    flags: [],
  },
];

const IFACE_COMMANDS: readonly CommandSpec[] = [
  {
    name: "addinterface",
    args: ["<vm>"],
    values: ["vms"],
    summary: "Plug a network interface into a VM, running or not",
    flags: [
      {
        flags: "--network-attachment-definition-name <name>",
        description: "network to join, NAME or NAMESPACE/NAME",
        required: true,
        values: "networks",
      },
      IFACE_NAME,
      { flags: "--mac-address <mac>", description: "MAC address; chosen when absent" },
      { flags: "--model <model>", description: "device model; virtio when absent" },
      VMI,
      ...WAIT,
    ],
  },
  {
    name: "removeinterface",
    args: ["<vm>"],
    values: ["vms"],
    summary: "Unplug a network interface from a VM",
    flags: [KNOWN_IFACE_NAME, VMI, ...WAIT],
  },
  {
    name: "get interfaces",
    aliases: ["interface", "ifaces"],
    args: ["<vm>"],
    values: ["vms"],
    summary: "List the network interfaces of a VM with their phases",
    flags: [VMI],
  },
  {
    name: "explain",
    args: ["<vm>", "<interface>"],
    values: ["vms", "interfaces"],
    summary: "Show what is known of one interface, and what happens next",
    flags: [VMI],
  },
];

const VM_COMMANDS: readonly CommandSpec[] = [
  {
    name: "start",
    args: ["<vm>"],
    values: ["vms"],
    summary: "Start a VM",
    flags: WAIT,
  },
  {
    name: "stop",
    args: ["<vm>"],
    values: ["vms"],
    summary: "Stop a VM; with --wait until it says Stopped",
    flags: WAIT,
  },
  {
    name: "restart",
    args: ["<vm>"],
    values: ["vms"],
    summary: "Restart a VM",
    flags: WAIT,
  },
  {
    name: "console",
    args: ["<vm>"],
    values: ["vms"],
    summary: "Connect to the serial console of a VM on this machine; leave with Ctrl-]",
    flags: [],
  },
];

const OTHER_COMMANDS: readonly CommandSpec[] = [
  {
    name: "completion",
    args: ["<shell>"],
    values: ["shells"],
    summary: "Print a completion script for bash or zsh",
    flags: [],
  },
  {
    name: "complete",
    args: ["<what>", "[vm]"],
    isHidden: true,
    summary: "Print names for completion",
    flags: [],
  },
  {
    name: "version",
    args: [],
    summary: "Print the version",
    flags: [],
  },
];

/** All commands, in the order of the help. */
export const COMMANDS: readonly CommandSpec[] = [
  ...MACHINE_COMMANDS,
  ...IFACE_COMMANDS,
  ...VM_COMMANDS,
  ...OTHER_COMMANDS,
];
