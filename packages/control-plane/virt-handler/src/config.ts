// SPDX-License-Identifier: Apache-2.0
// Command-line flags of virt-handler.
import { hostname } from "node:os";
import {
  addCommonFlags,
  addCriFlags,
  addHostFlags,
  toPort,
  type CommonFlags,
  type CriFlags,
  type HostFlags,
} from "@patchbay/daemon";
import { DATAPLANE_GROUP_FLAG, dataplaneGroupProblem } from "@patchbay/core/nics";
import { HANDLER_CLIENT_NAME } from "@patchbay/core/guest";
import { Command, InvalidArgumentError } from "commander";

export interface Flags extends CommonFlags, HostFlags, CriFlags {
  readonly nodeName: string;
  readonly podsDir: string;
  /** Directory of the kubelet that devices are offered to; unset to offer none. */
  readonly kubeletDir?: string;
  /** Group of a dataplane that does not run as root; 0 when it does. */
  readonly dataplaneGroup: number;
  readonly stateDir: string;
  readonly concurrency: number;
  readonly listenAddress: string;
  /** Port for virt-api's requests; unset to serve none. */
  readonly port?: number;
  readonly tlsCertFile: string;
  readonly tlsPrivateKeyFile: string;
  readonly clientCaFile: string;
  readonly clientName: string;
  /** Directory of the certificate for migrations; unset to have virt-api sign one. */
  readonly relayCertificates?: string;
  readonly relayAddress: string;
}

/** Mount point of the certificates that virt-api creates for virt-handler. */
const CERTIFICATES_DIR = "/etc/patchbay/virt-handler";

/** Exceeds the number of VMs on a node, so that no VM waits for another VM's launcher. */
export const WORKERS = 512;

function toDataplaneGroup(text: string): number {
  const problem = dataplaneGroupProblem(Number(text));
  if (problem === undefined) return Number(text);
  throw new InvalidArgumentError(problem);
}

export function parseFlags(argv: readonly string[]): Flags {
  const command = addCriFlags(addHostFlags(addCommonFlags(new Command("virt-handler"))))
    .description("Creates the links and devices of the VMs of one node.")
    .option("--node-name <name>", "node that this agent runs on", hostname())
    .option("--pods-dir <dir>", "directory of the pods' volumes", "/var/lib/kubelet/pods")
    .option(
      "--kubelet-dir <dir>",
      "directory of the node's kubelet, to which kvm, tun, vhost-net and directories of vhost-user sockets are offered for pods (default: they are offered to none)",
    )
    .option(DATAPLANE_GROUP_FLAG.flags, DATAPLANE_GROUP_FLAG.description, toDataplaneGroup, 0)
    .option(
      "--state-dir <dir>",
      "directory for state that the kernel does not keep: addresses that have moved from pods to guests",
      "/var/lib/patchbay/virt-handler",
    )
    .option("--concurrency <count>", "number of VMs worked on at once", Number, WORKERS)
    .option("--listen-address <address>", "address to listen on for virt-api", "0.0.0.0")
    .option(
      "--port <port>",
      "TCP port where virt-api asks for guests of this node; 0 takes a free one (default: nobody is answered)",
      toPort,
    )
    .option(
      "--tls-cert-file <file>",
      "certificate to serve with, PEM",
      `${CERTIFICATES_DIR}/tls.crt`,
    )
    .option("--tls-private-key-file <file>", "its key, PEM", `${CERTIFICATES_DIR}/tls.key`)
    .option(
      "--client-ca-file <file>",
      "authority of virt-api's client certificate",
      `${CERTIFICATES_DIR}/ca.crt`,
    )
    .option("--client-name <name>", "common name of that certificate", HANDLER_CLIENT_NAME)
    .option(
      "--relay-certificates <dir>",
      "directory of tls.crt, tls.key and ca.crt, PEM: what this node shows to another one when a guest moves, and whom it believes (default: virt-api signs it)",
    )
    .option(
      "--relay-address <address>",
      "address of this node at which others reach it when a guest moves",
      "127.0.0.1",
    )
    .exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : 2));
  return command.parse([...argv]).opts<Flags>();
}
