// SPDX-License-Identifier: Apache-2.0
// The flags of node-runtime, and the files that come with it.
import { arch, hostname } from "node:os";
import { fileURLToPath } from "node:url";
import { addCommonFlags, type CommonFlags } from "@patchbay/daemon";
import { Command } from "commander";

/** The flags with their defaults. */
export interface Flags extends CommonFlags {
  readonly nodeName: string;
  readonly podsDir: string;
  readonly imagesDir: string;
  readonly stateDir: string;
  readonly cniConfDir: string;
  readonly cniBinDir: readonly string[];
  readonly launcher: string;
  /** Absent: somebody else binds pods to nodes. */
  readonly binderKubeconfig?: string;
}

const BIN_DIRS: readonly string[] = ["/usr/lib/cni"];

/** Directory of pod-shim and its kin. */
export const LIBEXEC_DIR: string = fileURLToPath(new URL("../libexec", import.meta.url));

const LAUNCHER = fileURLToPath(new URL("../../virt-launcher/bin/virt-launcher", import.meta.url));

/** The machine's, in Node.js's words: `x64` is Kubernetes' `amd64`. */
export function architecture(): string {
  return arch();
}

/** Directories that are named take the place of the default. */
function collectDirectory(value: string, previous: readonly string[]): readonly string[] {
  return previous === BIN_DIRS ? [value] : [...previous, value];
}

/** Reads the arguments; prints help and exits where asked for, exits with 2 on unknown ones. */
export function parseFlags(argv: readonly string[]): Flags {
  const command = addCommonFlags(new Command("node-runtime"))
    .description("Realises the pods of one node: namespaces, default network, volumes, processes.")
    .option("--node-name <name>", "node that is registered and whose pods are run", hostname())
    .option("--pods-dir <dir>", "directory of the pods", "/var/lib/kubelet/pods")
    .option("--images-dir <dir>", "directory of the images", "/var/lib/patchbay/images")
    .option(
      "--state-dir <dir>",
      "directory for what must outlive a restart",
      "/var/lib/patchbay/node-runtime",
    )
    .option("--cni-conf-dir <dir>", "configuration of the default network", "/etc/cni/net.d")
    .option(
      "--cni-bin-dir <dir>",
      "directory of CNI plugins; may be repeated",
      collectDirectory,
      BIN_DIRS,
    )
    .option("--launcher <file>", "program of the image virt-launcher", LAUNCHER)
    .option(
      "--binder-kubeconfig <file>",
      "kubeconfig of the account that binds pods to this node (default: another program binds them)",
    )
    .exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : 2));
  return command.parse([...argv]).opts<Flags>();
}
