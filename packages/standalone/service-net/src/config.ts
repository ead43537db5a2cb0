// SPDX-License-Identifier: Apache-2.0
import { addCommonFlags, type CommonFlags } from "@patchbay/daemon";
import { Command, InvalidArgumentError } from "commander";
import { parseNetwork, type Network } from "./forward/network.ts";

export interface Flags extends CommonFlags {
  readonly serviceSubnet: Network;
  readonly podSubnet: Network;
  readonly bridge: string;
  readonly clusterDomain: string;
  readonly limitedPorts: readonly number[];
}

function toNetwork(text: string): Network {
  const network = parseNetwork(text);
  if (network !== undefined) return network;
  throw new InvalidArgumentError("It must be a network like 10.96.0.0/16.");
}

/** Matches link names that can be quoted in nftables rules. Source: linux/if.h IFNAMSIZ. */
const LINK_NAME = /^[^\s"/:]{1,15}$/;

function toLinkName(text: string): string {
  if (LINK_NAME.test(text)) return text;
  throw new InvalidArgumentError("It must be the name of a link.");
}

const PORT_MAX = 65_535;

function toPorts(text: string): readonly number[] {
  const ports = text.split(",").map(Number);
  if (ports.every((port) => Number.isInteger(port) && port > 0 && port <= PORT_MAX)) return ports;
  throw new InvalidArgumentError("It must be port numbers separated by commas.");
}

/** Parses the flags. Exits with code 2 if an argument is unknown or invalid. */
export function parseFlags(argv: readonly string[]): Flags {
  const command = addCommonFlags(new Command("service-net"))
    .description(
      "Forwards connections for Services to their pods, and answers DNS queries for Services, on one machine.",
    )
    .requiredOption(
      "--service-subnet <cidr>",
      "network of Service addresses, in CIDR form",
      toNetwork,
    )
    .requiredOption("--pod-subnet <cidr>", "network of the pods", toNetwork)
    .requiredOption("--bridge <name>", "bridge of the pods on this machine", toLinkName)
    .option("--cluster-domain <domain>", "DNS domain of Services", "cluster.local")
    .option(
      "--limited-ports <ports>",
      "TCP ports of this machine to which each other address may open a limited number of connections per second",
      toPorts,
      [],
    )
    .exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : 2));
  return command.parse([...argv]).opts<Flags>();
}
