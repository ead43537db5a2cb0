// SPDX-License-Identifier: Apache-2.0
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
import { parseIp } from "@patchbay/api/values";
import { DATAPLANE_GROUP_FLAG, checkDataplaneGroup } from "@patchbay/core/nics";
import { HANDLER_CLIENT_NAME } from "@patchbay/core/guest";
import { Command, InvalidArgumentError } from "commander";

export interface Flags extends CommonFlags, HostFlags, CriFlags {
  readonly nodeName: string;
  readonly podsDir: string;
  readonly kubeletDir?: string;
  /** Group ID of the vhost-user dataplane; 0 if the dataplane runs as root. */
  readonly dataplaneGroup: number;
  readonly stateDir: string;
  readonly concurrency: number;
  readonly listenAddress: string;
  readonly port?: number;
  readonly tlsCertFile: string;
  readonly tlsPrivateKeyFile: string;
  readonly clientCaFile: string;
  readonly clientName: string;
  readonly networkPolicies?: boolean;
  readonly multiNetworkPolicies?: boolean;
  /** Addresses and networks that NetworkPolicies do not restrict. */
  readonly policyExempt?: readonly string[];
  readonly relayCertificates?: string;
  readonly relayAddress: string;
}

/** Mount point of the certificates that virt-api creates for virt-handler. */
const CERTIFICATES_DIR = "/etc/patchbay/virt-handler";

/**
 * Default number of concurrent reconcile passes. The number is higher than the usual number of VMs on a node, so that no VM waits for
 * another VM's hung launcher.
 */
export const DEFAULT_CONCURRENCY = 512;

function toDataplaneGroup(text: string): number {
  const problem = checkDataplaneGroup(Number(text));
  if (problem === undefined) return Number(text);
  throw new InvalidArgumentError(problem);
}

function toAddresses(text: string): readonly string[] {
  const addresses = text.split(",");
  if (addresses.every((address) => parseIp(address) !== undefined)) return addresses;
  throw new InvalidArgumentError("It must be a list of IP addresses and networks.");
}

export function parseFlags(argv: readonly string[]): Flags {
  const command = addCriFlags(addHostFlags(addCommonFlags(new Command("virt-handler"))))
    .description("Creates the links and devices of the VMs of one node.")
    .option("--node-name <name>", "node that this agent runs on", hostname())
    .option("--pods-dir <dir>", "directory of the pods' volumes", "/var/lib/kubelet/pods")
    .option(
      "--kubelet-dir <dir>",
      "the kubelet's directory, to offer kvm, tun, vhost-net and directories of vhost-user sockets to pods (default: offer no devices)",
    )
    .option(DATAPLANE_GROUP_FLAG.flags, DATAPLANE_GROUP_FLAG.description, toDataplaneGroup, 0)
    .option(
      "--state-dir <dir>",
      "directory of persistent state: addresses that were moved from pods to guests",
      "/var/lib/patchbay/virt-handler",
    )
    .option(
      "--concurrency <count>",
      "number of VMs reconciled at a time",
      Number,
      DEFAULT_CONCURRENCY,
    )
    .option("--listen-address <address>", "address to listen on for virt-api", "0.0.0.0")
    .option(
      "--port <port>",
      "TCP port for virt-api's requests to guests of this node; 0 for a free port (default: serve no requests)",
      toPort,
    )
    .option(
      "--tls-cert-file <file>",
      "certificate to serve with, PEM",
      `${CERTIFICATES_DIR}/tls.crt`,
    )
    .option(
      "--tls-private-key-file <file>",
      "key of the certificate, PEM",
      `${CERTIFICATES_DIR}/tls.key`,
    )
    .option(
      "--client-ca-file <file>",
      "CA of virt-api's client certificate",
      `${CERTIFICATES_DIR}/ca.crt`,
    )
    .option(
      "--client-name <name>",
      "common name of virt-api's client certificate",
      HANDLER_CLIENT_NAME,
    )
    .option(
      "--network-policies",
      "apply NetworkPolicies to the VMs' NICs on the pod network, for nodes whose pod network does not",
    )
    .option(
      "--multi-network-policies",
      "apply MultiNetworkPolicies to the VMs' NICs on secondary networks, except networks whose CNI plugin applies them",
    )
    .option(
      "--policy-exempt <list>",
      "addresses and networks that NetworkPolicies do not restrict, separated by commas: the node's own, and those whose traffic the node filters elsewhere",
      toAddresses,
    )
    .option(
      "--relay-certificates <dir>",
      "directory with tls.crt, tls.key and ca.crt, PEM: this node's certificate for migrations and the CA of the other nodes' certificates (default: virt-api signs a certificate)",
    )
    .option(
      "--relay-address <address>",
      "address on which this node receives migrating guests",
      "127.0.0.1",
    )
    .exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : 2));
  return command.parse([...argv]).opts<Flags>();
}
