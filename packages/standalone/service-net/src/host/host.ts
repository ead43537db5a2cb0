// SPDX-License-Identifier: Apache-2.0
// nftables table, route and DNS server address of the Service network. They remain when this program exits, so that a
// restart interrupts no connections.
import type { ProcessRunner } from "@patchbay/core/interfaces";
import { addressAt, parseNetwork } from "../forward/network.ts";
import { printRemoval } from "../forward/ruleset.ts";

const TIMEOUT_MS = 10_000;
/** Offset of the DNS server's address in the Service network, as in kubeadm clusters. */
const DNS_OFFSET = 10;

/** Returns the name of the table, which is unique because each machine has a different Service network. */
export function buildTableName(serviceNetwork: string): string {
  return `patchbay-services-${serviceNetwork.split("/")[0] ?? ""}`;
}

export function buildPolicyTableName(serviceNetwork: string): string {
  return `patchbay-policies-${serviceNetwork.split("/")[0] ?? ""}`;
}

export function findDnsAddress(serviceNetwork: string): string {
  const network = parseNetwork(serviceNetwork);
  return network === undefined ? "" : addressAt(network, DNS_OFFSET);
}

/** Returns the address that the bridge plugin assigns to the pods' bridge. */
export function findGatewayAddress(podNetwork: string): string {
  const network = parseNetwork(podNetwork);
  return network === undefined ? "" : addressAt(network, 1);
}

/** Returns the route in the syntax of ip(8). No packet uses the device `lo`, because nftables redirects or rejects all packets first. */
function routeArguments(serviceNetwork: string): readonly string[] {
  return [serviceNetwork, "dev", "lo"];
}

/** Claims the Service network by adding its route. Returns false on failure, for example if another machine's route exists. */
export async function claimServices(
  runner: ProcessRunner,
  serviceNetwork: string,
): Promise<boolean> {
  const argv = ["ip", "-4", "route", "add", ...routeArguments(serviceNetwork)] as const;
  return (await runner.run({ argv, timeoutMs: TIMEOUT_MS })).exitCode === 0;
}

export async function prepareHost(runner: ProcessRunner, serviceNetwork: string): Promise<void> {
  const dns = findDnsAddress(serviceNetwork);
  const commands = [
    ["addr", "replace", `${dns}/32`, "dev", "lo"],
    ["route", "replace", ...routeArguments(serviceNetwork), "src", dns],
  ];
  for (const args of commands)
    await runner.run({ argv: ["ip", "-4", ...args], timeoutMs: TIMEOUT_MS });
}

/** Removes the Service network's route, the DNS server's address and both nftables tables. Ignores failed commands. */
export async function removeServices(runner: ProcessRunner, serviceNetwork: string): Promise<void> {
  if (parseNetwork(serviceNetwork) === undefined) return;
  const commands = [
    ["route", "del", ...routeArguments(serviceNetwork)],
    ["addr", "del", `${findDnsAddress(serviceNetwork)}/32`, "dev", "lo"],
  ];
  for (const args of commands)
    await runner.run({ argv: ["ip", "-4", ...args], timeoutMs: TIMEOUT_MS });
  const tables = [buildTableName(serviceNetwork), buildPolicyTableName(serviceNetwork)];
  const stdin = tables.map(printRemoval).join("");
  await runner.run({ argv: ["nft", "-f", "-"], stdin, timeoutMs: TIMEOUT_MS });
}
