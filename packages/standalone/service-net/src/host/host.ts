// SPDX-License-Identifier: Apache-2.0
// Table of nftables, route, and address of the name server. They outlive this program, so that a restart interrupts
// nothing; `patchbay down` removes them.
import type { ProcessRunner } from "@patchbay/core/interfaces";
import { addressAt, parseNetwork } from "../forward/network.ts";
import { removalText } from "../forward/ruleset.ts";

const TIMEOUT_MS = 10_000;
/** Offset in the Service network, as in kubeadm's clusters. */
const DNS_DISTANCE = 10;

/** Returns a name for the network. Each machine on the host has its own network of Services, and so its own table. */
export function buildTableName(serviceNetwork: string): string {
  return `patchbay-services-${serviceNetwork.split("/")[0] ?? ""}`;
}

export function findDnsAddress(serviceNetwork: string): string {
  const network = parseNetwork(serviceNetwork);
  return network === undefined ? "" : addressAt(network, DNS_DISTANCE);
}

/** Returns the route, which only has to exist: the table redirects packets before they reach the device. */
function routeArguments(serviceNetwork: string): readonly string[] {
  return [serviceNetwork, "dev", "lo"];
}

/**
 * Returns whether this machine got the network. The kernel accepts a route only once, so two machines cannot claim the
 * same network. Equivalent to: `ip -4 route add NETWORK dev lo`.
 */
export async function claimServices(
  runner: ProcessRunner,
  serviceNetwork: string,
): Promise<boolean> {
  const argv = ["ip", "-4", "route", "add", ...routeArguments(serviceNetwork)] as const;
  return (await runner.run({ argv, timeoutMs: TIMEOUT_MS })).exitCode === 0;
}

/** Adds the address and the route. Idempotent. */
export async function prepareHost(runner: ProcessRunner, serviceNetwork: string): Promise<void> {
  const dns = findDnsAddress(serviceNetwork);
  const commands = [
    ["addr", "replace", `${dns}/32`, "dev", "lo"],
    ["route", "replace", ...routeArguments(serviceNetwork), "src", dns],
  ];
  for (const args of commands)
    await runner.run({ argv: ["ip", "-4", ...args], timeoutMs: TIMEOUT_MS });
}

/** Removes the route, the address and the table. Idempotent. */
export async function removeServices(runner: ProcessRunner, serviceNetwork: string): Promise<void> {
  if (parseNetwork(serviceNetwork) === undefined) return;
  const commands = [
    ["route", "del", ...routeArguments(serviceNetwork)],
    ["addr", "del", `${findDnsAddress(serviceNetwork)}/32`, "dev", "lo"],
  ];
  for (const args of commands)
    await runner.run({ argv: ["ip", "-4", ...args], timeoutMs: TIMEOUT_MS });
  const stdin = removalText(buildTableName(serviceNetwork));
  await runner.run({ argv: ["nft", "-f", "-"], stdin, timeoutMs: TIMEOUT_MS });
}
