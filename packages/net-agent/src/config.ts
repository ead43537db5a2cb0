// SPDX-License-Identifier: Apache-2.0
// The flags of net-agent.
import { Command, InvalidArgumentError, Option } from "commander";
import { LOG_LEVELS, type LogLevel } from "@patchbay/telemetry";

/** What the agent is told on its command line. */
export interface Config {
  /** Absent: the cluster that it runs in. */
  readonly kubeconfig?: string;
  readonly logLevel: LogLevel;
  readonly nodeName: string;
  readonly podsDir: string;
  readonly stateDir: string;
  readonly cniBinDirs: readonly string[];
  readonly namespaceIsolation: boolean;
  /** How many pods are worked on at once; each has one operation at a time. */
  readonly concurrency: number;
}

const BIN_DIRS: readonly string[] = ["/usr/lib/cni"];

function parseCount(text: string): number {
  const count = Number(text);
  if (!Number.isInteger(count) || count < 1) {
    throw new InvalidArgumentError("It must be a whole number from 1.");
  }
  return count;
}

/** Directories that were named take the place of the default. */
function collectDirectory(value: string, previous: readonly string[]): readonly string[] {
  return previous === BIN_DIRS ? [value] : [...previous, value];
}

function createProgram(): Command {
  return new Command("net-agent")
    .description("Attaches networks to running pods of this node and detaches them.")
    .option("--kubeconfig <file>", "kubeconfig; without it the cluster that it runs in")
    .addOption(
      new Option("--log-level <level>", "how much is logged").choices(LOG_LEVELS).default("info"),
    )
    .addOption(
      new Option("--node-name <name>", "name of this node").env("NODE_NAME").makeOptionMandatory(),
    )
    .option("--pods-dir <dir>", "directory of the pods", "/var/lib/kubelet/pods")
    .option("--state-dir <dir>", "directory of the journal", "/var/lib/patchbay/net-agent")
    .option(
      "--cni-bin-dir <dir>",
      "directory of CNI plugins; may be repeated",
      collectDirectory,
      BIN_DIRS,
    )
    .option("--namespace-isolation", "refuse networks of other namespaces", false)
    .option("--concurrency <count>", "pods that are worked on at once", parseCount, 16);
}

/** Reads the command line; ends the process with 2 when it is wrong, with 0 after `--help`. */
export function parseConfig(argv: readonly string[]): Config {
  const program = createProgram().exitOverride((error) => {
    process.exit(error.exitCode === 0 ? 0 : 2);
  });
  program.parse([...argv]);
  const { cniBinDir, ...rest } = program.opts<
    Omit<Config, "cniBinDirs"> & { readonly cniBinDir: readonly string[] }
  >();
  return { ...rest, cniBinDirs: cniBinDir };
}
