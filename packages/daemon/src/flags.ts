// SPDX-License-Identifier: Apache-2.0
// The flags that every service has.
import { LOG_LEVELS, type LogLevel } from "@patchbay/telemetry";
import { Option, type Command } from "commander";

/** What `--kubeconfig` and `--log-level` say, or their defaults. */
export interface CommonFlags {
  /** Absent: the cluster that the process runs in. */
  readonly kubeconfig?: string;
  readonly logLevel: LogLevel;
}

/** Adds `--kubeconfig` and `--log-level`. */
export function addCommonFlags(command: Command): Command {
  return command
    .option(
      "--kubeconfig <file>",
      "kubeconfig of the API server (default: in-cluster configuration)",
    )
    .addOption(
      new Option("--log-level <level>", "least level that is logged")
        .choices(LOG_LEVELS)
        .default("info"),
    );
}
