// SPDX-License-Identifier: Apache-2.0
// What Services have of the host: a table of nftables, a route, and the name server's address. They outlive this
// program, so that its restart interrupts nothing; `patchbay down` takes them away.
import type { ProcessRunner } from "@patchbay/core/ports";
import { addressAt, parseNetwork } from "../forward/network.ts";
import { removalText } from "../forward/ruleset.ts";

const TIMEOUT_MS = 10_000;
/** Of each network of Services. Source: kubeadm and others, which give the tenth address to the name server. */
const DNS_DISTANCE = 10;

/** Name of the table; a network of Services is one machine's. */
export function tableOf(serviceNetwork: string): string {
  return `patchbay-services-${serviceNetwork.split("/")[0] ?? ""}`;
}

/** Address of the name server in a network of Services, in CIDR form. */
export function dnsAddressOf(serviceNetwork: string): string {
  const network = parseNetwork(serviceNetwork);
  return network === undefined ? "" : addressAt(network, DNS_DISTANCE);
}

/** What leads to Services: packets come past the table before they could come anywhere. */
function routeOf(serviceNetwork: string): readonly string[] {
  return [serviceNetwork, "dev", "lo"];
}

/**
 * Makes the route to a network of Services, with which it is this machine's; false: another one has it. Another machine of
 * this host may choose in the same moment: the kernel takes a route once.
 * Equivalent to: `ip -4 route add NETWORK dev lo`.
 */
export async function claimServices(
  runner: ProcessRunner,
  serviceNetwork: string,
): Promise<boolean> {
  const argv = ["ip", "-4", "route", "add", ...routeOf(serviceNetwork)] as const;
  return (await runner.run({ argv, timeoutMs: TIMEOUT_MS })).exitCode === 0;
}

/** Gives the host what Services need, where it is missing. */
export async function prepareHost(runner: ProcessRunner, serviceNetwork: string): Promise<void> {
  const dns = dnsAddressOf(serviceNetwork);
  const commands = [
    ["addr", "replace", `${dns}/32`, "dev", "lo"],
    ["route", "replace", ...routeOf(serviceNetwork), "src", dns],
  ];
  for (const words of commands)
    await runner.run({ argv: ["ip", "-4", ...words], timeoutMs: TIMEOUT_MS });
}

/** Takes all of it away; that it is not there is no failure. */
export async function removeServices(runner: ProcessRunner, serviceNetwork: string): Promise<void> {
  if (parseNetwork(serviceNetwork) === undefined) return;
  const commands = [
    ["route", "del", ...routeOf(serviceNetwork)],
    ["addr", "del", `${dnsAddressOf(serviceNetwork)}/32`, "dev", "lo"],
  ];
  for (const words of commands)
    await runner.run({ argv: ["ip", "-4", ...words], timeoutMs: TIMEOUT_MS });
  const stdin = removalText(tableOf(serviceNetwork));
  await runner.run({ argv: ["nft", "-f", "-"], stdin, timeoutMs: TIMEOUT_MS });
}
