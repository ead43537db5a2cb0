// SPDX-License-Identifier: Apache-2.0
import { arch, hostname } from "node:os";
import { addCommonFlags, addCriFlags, type CommonFlags, type CriFlags } from "@patchbay/daemon";
import { DATAPLANE_GROUP_FLAG, checkDataplaneGroup } from "@patchbay/core/nics";
import { Command, InvalidArgumentError } from "commander";

export interface Flags extends CommonFlags, CriFlags {
  readonly nodeName: string;
  readonly podsDir: string;
  readonly logDir: string;
  readonly stateDir: string;
  readonly cniConfDir: string;
  readonly cgroupParent: string;
  readonly containerdDir?: string;
  readonly claimsDir?: string;
  /** IP address of the pods' DNS server; unset when pods use the node's resolvers. */
  readonly clusterDns?: string;
  readonly clusterDomain: string;
  /** GID of the vhost-user dataplane; 0 for root. */
  readonly dataplaneGroup: number;
  /** Address at which pods reach the API server, as HOST:PORT; unset when pods receive no such address. */
  readonly podApiServer?: string;
  readonly binderKubeconfig?: string;
  readonly listenAddress?: string;
  readonly port: string;
  readonly tlsCertFile?: string;
  readonly tlsPrivateKeyFile?: string;
  readonly clientCaFile?: string;
  readonly clientName: readonly string[];
}

/** Returns the CPU architecture in the notation of Node.js, for example `x64` instead of `amd64`. */
export function readArchitecture(): string {
  return arch();
}

function collect(value: string, previous: readonly string[]): readonly string[] {
  return [...previous, value];
}

function parseDataplaneGroup(text: string): number {
  const problem = checkDataplaneGroup(Number(text));
  if (problem === undefined) return Number(text);
  throw new InvalidArgumentError(problem);
}

function addApiFlags(command: Command): Command {
  return command
    .option(
      "--listen-address <ip>",
      "address at which the API server reaches the node (default: the machine's first address)",
    )
    .option("--port <number>", "port at that address; 0 selects a free one", "0")
    .option(
      "--tls-cert-file <file>",
      "certificate of the node (default: the kubelet API is not served)",
    )
    .option("--tls-private-key-file <file>", "key of that certificate")
    .option("--client-ca-file <file>", "CA of the API server's client certificate")
    .option(
      "--client-name <name>",
      "common name of that certificate; may be repeated",
      collect,
      [],
    );
}

/** Parses the flags. Exits with status 2 if an argument is invalid. */
export function parseFlags(argv: readonly string[]): Flags {
  const command = addApiFlags(addCriFlags(addCommonFlags(new Command("node-runtime"))))
    .description("Runs the pods of one node on a CRI container runtime.")
    .option("--node-name <name>", "name of the node to register; its pods are run", hostname())
    .option("--pods-dir <dir>", "directory of the pods", "/var/lib/kubelet/pods")
    .option("--log-dir <dir>", "directory of the containers' logs", "/var/log/pods")
    .option("--state-dir <dir>", "directory of persistent state", "/var/lib/patchbay/node-runtime")
    .option("--cni-conf-dir <dir>", "CNI configuration of the default network", "/etc/cni/net.d")
    .option("--cgroup-parent <name>", "parent control group of containers", "/patchbay")
    .option(
      "--containerd-dir <dir>",
      "directory of the containerd whose images pods may mount (default: image volumes are not supported)",
    )
    .option(
      "--claims-dir <dir>",
      "directory of the claims' storage (default: claims are not supported)",
    )
    .option(
      "--pod-api-server <host:port>",
      "address at which pods reach the API server (default: not passed to pods)",
    )
    .option("--cluster-dns <ip>", "DNS server of the pods (default: the node's own resolvers)")
    .option("--cluster-domain <domain>", "DNS domain of Services", "cluster.local")
    .option(DATAPLANE_GROUP_FLAG.flags, DATAPLANE_GROUP_FLAG.description, parseDataplaneGroup, 0)
    .option(
      "--binder-kubeconfig <file>",
      "kubeconfig of the account that binds pods to this node (default: pods are not bound)",
    )
    .exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : 2));
  return command.parse([...argv]).opts<Flags>();
}
