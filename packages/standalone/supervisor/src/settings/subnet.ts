// SPDX-License-Identifier: Apache-2.0
// Chooses the pod network and the Service network, so that neither overlaps with a route of the host.
import { isWithin, parseIp } from "@patchbay/api/values";
import { isJsonObject } from "@patchbay/api/json";
import { AppError } from "@patchbay/base";
import type { ProcessRunner } from "@patchbay/core/interfaces";
import { readText } from "../data-dir/json.ts";

const TIMEOUT_MS = 5000;
/** Third byte of the first pod network, 10.88.111.0/24. */
const POD_SUBNET_FIRST = 111;
const POD_SUBNET_COUNT = 128;
const SERVICE_SUBNET_FIRST = 96;
const SERVICE_SUBNET_COUNT = 16;

/** Returns whether two networks or addresses in CIDR notation overlap. Returns false for invalid values. */
export function overlaps(one: string, other: string): boolean {
  const [address, otherAddress] = [parseIp(one), parseIp(other)];
  return (
    address !== undefined &&
    otherAddress !== undefined &&
    (isWithin(address, otherAddress) || isWithin(otherAddress, address))
  );
}

function filterFree(
  routes: readonly string[],
  count: number,
  buildCandidate: (index: number) => string,
): readonly string[] {
  return Array.from({ length: count }, (_none, index) => buildCandidate(index)).filter(
    (candidate) => !routes.some((route) => overlaps(route, candidate)),
  );
}

/** Chooses a pod network that overlaps no route. Returns the first candidate if all overlap routes. */
export function chooseFreeSubnet(routes: readonly string[]): string {
  const buildSubnet = (index: number): string => `10.88.${String(POD_SUBNET_FIRST + index)}.0/24`;
  return filterFree(routes, POD_SUBNET_COUNT, buildSubnet)[0] ?? buildSubnet(0);
}

/** Lists the networks of 10.96.0.0/12, kubeadm's default Service range, that overlap no route. */
export function listFreeServiceSubnets(routes: readonly string[]): readonly string[] {
  return filterFree(
    routes,
    SERVICE_SUBNET_COUNT,
    (index) => `10.${String(SERVICE_SUBNET_FIRST + index)}.0.0/16`,
  );
}

/** Runs `ip -4 -j route show table main`. @throws AppError with OS_PROGRAM_FAILED */
export async function listRoutes(runner: ProcessRunner): Promise<readonly string[]> {
  const { exitCode, stdout, stderr } = await runner.run({
    argv: ["ip", "-4", "-j", "route", "show", "table", "main"],
    timeoutMs: TIMEOUT_MS,
  });
  // A failure must not count as an empty list, because the chosen network could conflict with a route.
  if (exitCode !== 0) {
    throw new AppError("OS_PROGRAM_FAILED", { program: "ip", exitCode, stderr: stderr.trim() });
  }
  const routes: unknown = JSON.parse(stdout === "" ? "[]" : stdout);
  const targets = (Array.isArray(routes) ? routes : []).map((route: unknown) =>
    isJsonObject(route) ? readText(route, "dst") : "",
  );
  return targets.filter((target) => target !== "default" && target !== "");
}
