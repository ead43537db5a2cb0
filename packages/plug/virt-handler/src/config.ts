// SPDX-License-Identifier: Apache-2.0
// The flags of virt-handler.
import { hostname } from "node:os";
import {
  addCommonFlags,
  addCriFlags,
  addHostFlags,
  type CommonFlags,
  type CriFlags,
  type HostFlags,
} from "@patchbay/daemon";
import { Command } from "commander";

/** What the command line says; the flags are listed in docs/reference/config.md. */
export interface Flags extends CommonFlags, HostFlags, CriFlags {
  readonly nodeName: string;
  readonly podsDir: string;
  /** Of the kubelet that is offered devices; absent: none is. */
  readonly kubeletDir?: string;
  readonly stateDir: string;
  readonly concurrency: number;
}

/** More than a node has VMs: each waits for its own launcher, and none may wait for another's. */
export const WORKERS = 512;

/** Reads the arguments; prints help and exits where asked for, exits with 2 on unknown ones. */
export function parseFlags(argv: readonly string[]): Flags {
  const command = addCriFlags(addHostFlags(addCommonFlags(new Command("virt-handler"))))
    .description("Creates the links and devices of the VMs of one node.")
    .option("--node-name <name>", "node that this agent runs on", hostname())
    .option("--pods-dir <dir>", "directory of the pods' volumes", "/var/lib/kubelet/pods")
    .option(
      "--kubelet-dir <dir>",
      "directory of the node's kubelet, to which kvm, tun and vhost-net are offered for pods (default: they are offered to none)",
    )
    .option(
      "--state-dir <dir>",
      "directory for state that the kernel does not keep: addresses that have moved from pods to guests",
      "/var/lib/patchbay/virt-handler",
    )
    .option("--concurrency <count>", "number of VMs worked on at once", Number, WORKERS)
    .exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : 2));
  return command.parse([...argv]).opts<Flags>();
}
