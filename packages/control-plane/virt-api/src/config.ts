// SPDX-License-Identifier: Apache-2.0
import { addCommonFlags, toPort, type CommonFlags } from "@patchbay/daemon";
import type { HandlerAddress } from "./handlers/client.ts";
import { Command, InvalidArgumentError } from "commander";

/** Maximum drain time in seconds, below a pod's default grace period of 30 s. Source: Kubernetes core/v1 terminationGracePeriodSeconds. */
const DRAIN_SECONDS_MAX = 25;

/** Command-line flags. Without certificate files, virt-api stores its certificates in a Secret. */
export interface Flags extends CommonFlags {
  readonly listenAddress: string;
  readonly port: number;
  readonly tlsCertFile?: string;
  readonly tlsPrivateKeyFile?: string;
  readonly requestheaderClientCaFile?: string;
  readonly requestheaderAllowedNames: readonly string[];
  readonly webhookClientCaFile?: string;
  readonly webhookAllowedNames: readonly string[];
  /** Address of virt-handler on a standalone machine; unset if virt-handlers run in pods. */
  readonly virtHandlerAddress?: HandlerAddress;
  readonly virtHandlerCaFile?: string;
  readonly virtHandlerClientCertFile?: string;
  readonly virtHandlerClientKeyFile?: string;
  readonly drainSeconds: number;
  readonly changesPerSecond: number;
}

function toSeconds(text: string): number {
  const seconds = Number(text);
  if (text.trim() !== "" && seconds >= 0 && seconds <= DRAIN_SECONDS_MAX) return seconds;
  throw new InvalidArgumentError(`It must be a number from 0 to ${String(DRAIN_SECONDS_MAX)}.`);
}

function toRate(text: string): number {
  const rate = Number(text);
  if (rate > 0 && rate < Infinity) return rate;
  throw new InvalidArgumentError("It must be a number above 0.");
}

function toAddress(text: string): HandlerAddress {
  const [, host = "", port = ""] = /^([^:\s]+|\[[^\]\s]+\]):(\d{1,5})$/.exec(text) ?? [];
  if (host === "") throw new InvalidArgumentError("It must be HOST:PORT.");
  return { host: host.replace(/^\[|\]$/g, ""), port: toPort(port) };
}

function toNames(text: string): readonly string[] {
  return text.split(",").filter((name) => name !== "");
}

function addHandlerFlags(command: Command): Command {
  return command
    .option(
      "--virt-handler-address <host:port>",
      "address of this machine's virt-handler (default: the pod of each node)",
      toAddress,
    )
    .option(
      "--virt-handler-ca-file <file>",
      "CA of virt-handler's certificate, PEM (default: virt-api's own)",
    )
    .option("--virt-handler-client-cert-file <file>", "client certificate for virt-handler, PEM")
    .option(
      "--virt-handler-client-key-file <file>",
      "private key of --virt-handler-client-cert-file, PEM",
    );
}

export function parseFlags(argv: readonly string[]): Flags {
  const command = addHandlerFlags(addCommonFlags(new Command("virt-api")))
    .description("Serves the subresources of VMs and VMIs, and validates them at admission.")
    .option("--listen-address <address>", "address to listen on", "0.0.0.0")
    .option("--port <port>", "TCP port to listen on; 0 chooses a free one", toPort, 8443)
    .option(
      "--tls-cert-file <file>",
      "server certificate, PEM (default: creates its own and stores it in a Secret)",
    )
    .option("--tls-private-key-file <file>", "private key of --tls-cert-file, PEM")
    .option(
      "--requestheader-client-ca-file <file>",
      "CA of the API server's front proxy (default: CA and names from the ConfigMap extension-apiserver-authentication)",
    )
    .option(
      "--requestheader-allowed-names <names>",
      "allowed common names of the front proxy's certificate, separated by commas (default: every certificate of its CA)",
      toNames,
      [],
    )
    .option(
      "--webhook-client-ca-file <file>",
      "CA of the API server's client certificate for webhooks (default: webhooks accept every caller)",
    )
    .option(
      "--webhook-allowed-names <names>",
      "allowed common names of that certificate, separated by commas (default: every certificate of its CA)",
      toNames,
      [],
    )
    .option(
      "--drain-seconds <seconds>",
      "how long to serve requests after a stop signal, until the cluster routes them elsewhere",
      toSeconds,
      0,
    )
    .option(
      "--changes-per-second <number>",
      "how many changes of VMs by subresources, and of interfaces of running VMs, each user may request in the long run; administrators are not limited",
      toRate,
      5,
    )
    .exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : 2));
  const flags = command.parse([...argv]).opts<Flags>();
  if ((flags.tlsCertFile === undefined) !== (flags.tlsPrivateKeyFile === undefined)) {
    command.error("error: --tls-cert-file and --tls-private-key-file must be set together");
  }
  return flags;
}
