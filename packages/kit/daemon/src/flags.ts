// SPDX-License-Identifier: Apache-2.0
// The flags that every service has.
import { LOG_LEVELS, type LogLevel } from "@patchbay/telemetry";
import { InvalidArgumentError, Option, type Command } from "commander";

/** What the common flags say, or their defaults. */
export interface CommonFlags {
  /** Absent: the cluster that the process runs in. */
  readonly kubeconfig?: string;
  readonly logLevel: LogLevel;
  /** Where is answered whether the service lives and does its work; absent: nowhere. */
  readonly healthPort?: number;
  /** A Unix socket where the same is answered, instead of the port. */
  readonly healthSocket?: string;
  /** Where metrics are answered; absent: nowhere. */
  readonly metricsPort?: number;
  /** Absent: on all addresses. */
  readonly metricsAddress?: string;
  /** Over TLS, and only to whom the API server lets read them; else over plain HTTP, to everybody. */
  readonly metricsSecure?: boolean;
}

const PORT_MAX = 65_535;

/**
 * Reads a TCP port; 0 takes a free one.
 * @throws InvalidArgumentError of commander
 */
export function toPort(text: string): number {
  const port = Number(text);
  if (Number.isInteger(port) && port >= 0 && port <= PORT_MAX) return port;
  throw new InvalidArgumentError("It must be a number from 0 to 65535.");
}

/** Adds `--kubeconfig`, `--log-level`, `--health-port`, `--health-socket`, `--metrics-port`, `--metrics-address` and `--metrics-secure`. */
export function addCommonFlags(command: Command): Command {
  return command
    .option(
      "--kubeconfig <file>",
      "kubeconfig of the API server (default: in-cluster configuration)",
    )
    .addOption(
      new Option("--log-level <level>", "lowest level that is logged")
        .choices(LOG_LEVELS)
        .default("info"),
    )
    .option(
      "--health-port <port>",
      "TCP port of /healthz and /readyz, over plain HTTP (default: none)",
      toPort,
    )
    .option(
      "--health-socket <path>",
      "Unix socket of /healthz and /readyz, instead of that port (default: none)",
    )
    .option("--metrics-port <port>", "TCP port of /metrics (default: none)", toPort)
    .option(
      "--metrics-address <ip>",
      "address of that port (default: every address of the machine)",
    )
    .option(
      "--metrics-secure",
      "serve /metrics over TLS, with a certificate of its own, to who brings a token whose bearer may get /metrics (default: over plain HTTP, to everybody)",
    );
}

/** A flag of the agents, which run in a pod of their own on a cluster. */
export interface HostFlags {
  /** A process whose namespaces are the host's; absent: the agent's own are. */
  readonly hostProcess?: number;
}

function toPid(text: string): number {
  const pid = Number(text);
  if (Number.isInteger(pid) && pid > 0) return pid;
  throw new InvalidArgumentError("It must be a process id.");
}

/** Adds `--host-process`. */
export function addHostFlags(command: Command): Command {
  return command.option(
    "--host-process <pid>",
    "a process in the host's namespaces: 1 in a pod that shares the host's processes (default: this process)",
    toPid,
  );
}

/** A flag of everything that asks the container runtime of its node. */
export interface CriFlags {
  /** Where the runtime listens, tried in order; absent: the usual places. */
  readonly criEndpoint?: readonly string[];
}

function collectEndpoint(text: string, previous: readonly string[] = []): readonly string[] {
  if (/^unix:\/\/\/./.test(text)) return [...previous, text];
  throw new InvalidArgumentError("It must be unix:// and an absolute path.");
}

/** Adds `--cri-endpoint`. */
export function addCriFlags(command: Command): Command {
  return command.option(
    "--cri-endpoint <url>",
    "unix:///… of the container runtime; may be repeated, the first that answers is used (default: the sockets of containerd, CRI-O and k3s; the host's where --host-process is given)",
    collectEndpoint,
  );
}
