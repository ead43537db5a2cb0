// SPDX-License-Identifier: Apache-2.0
// Which commands are there, with which flags? Data only; a command's module is loaded when it runs.
import type { CommandModule } from "./context.ts";

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
}

/** A command. */
export interface CommandSpec {
  /** One word, or a group and a word, as typed. */
  readonly name: string;
  readonly aliases?: readonly string[];
  /** As commander takes them, for example `<vm>`. */
  readonly args: readonly string[];
  readonly summary: string;
  readonly flags: readonly FlagSpec[];
  readonly load: () => Promise<CommandModule>;
}

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

const MACHINE_COMMANDS: readonly CommandSpec[] = [
  {
    name: "up",
    args: [],
    summary: "Start everything on this machine; returns when it is ready",
    flags: [],
    load: () => import("./commands/up.ts"),
  },
  {
    name: "down",
    args: [],
    summary: "Shut guests down and stop everything on this machine; data is kept",
    flags: [{ flags: "--purge", description: "delete the data directory too" }],
    load: () => import("./commands/down.ts"),
  },
  {
    name: "apiserver",
    args: [],
    summary: "Run the API server alone, in the foreground",
    flags: [
      {
        flags: "--port <port>",
        description: "TCP port; 0 takes a free one",
        kind: "port",
        fallback: "6443",
      },
    ],
    load: () => import("./commands/apiserver.ts"),
  },
  {
    name: "image add",
    args: ["<name>", "<directory>"],
    summary: "Copy a directory into an image that VMs can name",
    flags: [],
    load: () => import("./commands/image-add.ts"),
  },
  {
    name: "image list",
    args: [],
    summary: "List images",
    flags: [],
    load: () => import("./commands/image-list.ts"),
  },
  {
    name: "image remove",
    args: ["<name>"],
    summary: "Remove an image",
    flags: [],
    load: () => import("./commands/image-remove.ts"),
  },
];

const IFACE_COMMANDS: readonly CommandSpec[] = [
  {
    name: "addinterface",
    args: ["<vm>"],
    summary: "Plug a network interface into a VM, running or not",
    flags: [
      {
        flags: "--network-attachment-definition-name <name>",
        description: "network to join, NAME or NAMESPACE/NAME",
        required: true,
      },
      IFACE_NAME,
      { flags: "--mac-address <mac>", description: "MAC address; chosen when absent" },
      { flags: "--model <model>", description: "device model; virtio when absent" },
      VMI,
      ...WAIT,
    ],
    load: () => import("./commands/add-interface.ts"),
  },
  {
    name: "removeinterface",
    args: ["<vm>"],
    summary: "Unplug a network interface from a VM",
    flags: [IFACE_NAME, VMI, ...WAIT],
    load: () => import("./commands/remove-interface.ts"),
  },
  {
    name: "get interfaces",
    aliases: ["interface", "ifaces"],
    args: ["<vm>"],
    summary: "List the network interfaces of a VM with their phases",
    flags: [VMI],
    load: () => import("./commands/get-interfaces.ts"),
  },
  {
    name: "explain",
    args: ["<vm>", "<interface>"],
    summary: "Show what is known of one interface, and what happens next",
    flags: [VMI],
    load: () => import("./commands/explain.ts"),
  },
];

const VM_COMMANDS: readonly CommandSpec[] = [
  {
    name: "start",
    args: ["<vm>"],
    summary: "Start a VM",
    flags: WAIT,
    load: () => import("./commands/start.ts"),
  },
  {
    name: "stop",
    args: ["<vm>"],
    summary: "Stop a VM",
    flags: WAIT,
    load: () => import("./commands/stop.ts"),
  },
  {
    name: "restart",
    args: ["<vm>"],
    summary: "Restart a VM",
    flags: WAIT,
    load: () => import("./commands/restart.ts"),
  },
  {
    name: "console",
    args: ["<vm>"],
    summary: "Connect to the serial console of a VM on this machine; leave with Ctrl-]",
    flags: [],
    load: () => import("./commands/console.ts"),
  },
];

const OTHER_COMMANDS: readonly CommandSpec[] = [
  {
    name: "completion",
    args: ["<shell>"],
    summary: "Print a completion script for bash or zsh",
    flags: [],
    load: () => import("./commands/completion.ts"),
  },
  {
    name: "version",
    args: [],
    summary: "Print the version",
    flags: [],
    load: () => import("./commands/version.ts"),
  },
];

/** All commands, in the order of the help. */
export const COMMANDS: readonly CommandSpec[] = [
  ...MACHINE_COMMANDS,
  ...IFACE_COMMANDS,
  ...VM_COMMANDS,
  ...OTHER_COMMANDS,
];
