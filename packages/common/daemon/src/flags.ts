// SPDX-License-Identifier: Apache-2.0
import { VERSION } from "@patchbay/base/version";
import { LOG_LEVELS, type LogLevel } from "@patchbay/telemetry";
import { InvalidArgumentError, Option, type Command } from "commander";

export interface CommonFlags {
  /** Path of a kubeconfig; unset to connect to the cluster in which the process runs. */
  readonly kubeconfig?: string;
  readonly logLevel: LogLevel;
  /** TCP port of /healthz and /readyz; unset to open no port. */
  readonly healthPort?: number;
  /** Unix socket of /healthz and /readyz, used instead of the port. */
  readonly healthSocket?: string;
  /** TCP port of /metrics; unset to serve no metrics. */
  readonly metricsPort?: number;
  /** Address of the metrics port; unset for all addresses. */
  readonly metricsAddress?: string;
  /** Whether metrics are served over TLS to authorized clients. Otherwise, plain HTTP serves them to everyone. */
  readonly metricsSecure?: boolean;
}

const PORT_MAX = 65_535;

/** Parses a port. 0 selects a free port. @throws InvalidArgumentError of commander */
export function toPort(text: string): number {
  const port = Number(text);
  if (Number.isInteger(port) && port >= 0 && port <= PORT_MAX) return port;
  throw new InvalidArgumentError("It must be a number from 0 to 65535.");
}

export function addCommonFlags(command: Command): Command {
  return command
    .version(VERSION, "--version", "print the version")
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
      "serve /metrics over TLS with a generated certificate, to clients whose token may get /metrics (default: over plain HTTP, to everyone)",
    );
}

export interface HostFlags {
  /** PID of a process in the host's namespaces; unset if this process is in the host's namespaces. */
  readonly hostProcess?: number;
}

function toPid(text: string): number {
  const pid = Number(text);
  if (Number.isInteger(pid) && pid > 0) return pid;
  throw new InvalidArgumentError("It must be a process id.");
}

export function addHostFlags(command: Command): Command {
  return command.option(
    "--host-process <pid>",
    "a process in the host's namespaces: 1 in a pod that shares the host's processes (default: this process)",
    toPid,
  );
}

export interface CriFlags {
  /** Sockets of the container runtime, tried in order; unset for the default sockets. */
  readonly criEndpoint?: readonly string[];
}

function collectEndpoint(text: string, previous: readonly string[] = []): readonly string[] {
  if (/^unix:\/\/\/./.test(text)) return [...previous, text];
  throw new InvalidArgumentError("It must be unix:// and an absolute path.");
}

export function addCriFlags(command: Command): Command {
  return command.option(
    "--cri-endpoint <url>",
    "unix:///… of the container runtime; may be repeated, the first that answers is used (default: the sockets of containerd, CRI-O and k3s; with --host-process those of the host)",
    collectEndpoint,
  );
}
