// SPDX-License-Identifier: Apache-2.0
// The flags of virt-api.
import { addCommonFlags, type CommonFlags } from "@patchbay/daemon";
import { Command, InvalidArgumentError } from "commander";

/** Files of certificates are PEM; without a front proxy's authority there are no subresources. */
export interface Flags extends CommonFlags {
  readonly listenAddress: string;
  readonly port: number;
  readonly tlsCertFile: string;
  readonly tlsPrivateKeyFile: string;
  readonly requestheaderClientCaFile?: string;
  readonly requestheaderAllowedNames: readonly string[];
  readonly webhookClientCaFile?: string;
  readonly webhookAllowedNames: readonly string[];
}

const PORT_MAX = 65_535;

function toPort(text: string): number {
  const port = Number(text);
  if (Number.isInteger(port) && port >= 0 && port <= PORT_MAX) return port;
  throw new InvalidArgumentError("It must be a number from 0 to 65535.");
}

function toNames(text: string): readonly string[] {
  return text.split(",").filter((name) => name !== "");
}

/** Reads the arguments; prints help and exits where asked for, exits with 2 on unknown ones. */
export function parseFlags(argv: readonly string[]): Flags {
  const command = addCommonFlags(new Command("virt-api"))
    .description("Serves the subresources of VMs and VMIs, and judges them at admission.")
    .option("--listen-address <address>", "address to listen on", "0.0.0.0")
    .option("--port <port>", "TCP port to listen on; 0 takes a free one", toPort, 8443)
    .requiredOption("--tls-cert-file <file>", "certificate to serve with, PEM")
    .requiredOption("--tls-private-key-file <file>", "its private key, PEM")
    .option(
      "--requestheader-client-ca-file <file>",
      "authority of the API server's front proxy; without it subresources are refused",
    )
    .option(
      "--requestheader-allowed-names <names>",
      "common names of the front proxy's certificate, with commas between; without them every client of its authority is believed",
      toNames,
      [],
    )
    .option(
      "--webhook-client-ca-file <file>",
      "authority of the certificate with which the API server calls webhooks; without it everybody is answered",
    )
    .option(
      "--webhook-allowed-names <names>",
      "common names of that certificate, with commas between; without them every client of its authority is answered",
      toNames,
      [],
    )
    .exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : 2));
  return command.parse([...argv]).opts<Flags>();
}
