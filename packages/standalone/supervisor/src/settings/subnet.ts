// SPDX-License-Identifier: Apache-2.0
// Networks for pods and Services without routes on the host.
import { isWithin, parseIp } from "@patchbay/api/values";
import { isJsonObject } from "@patchbay/api/json";
import { AppError } from "@patchbay/base";
import type { ProcessRunner } from "@patchbay/core/interfaces";
import { readText } from "../data-dir/json.ts";

const TIMEOUT_MS = 5000;
/** Third byte of the first pod network. Leaves room for Podman's networks, which start at 10.88.0.0. */
const POD_SUBNET_FIRST = 111;
const POD_SUBNET_COUNT = 128;
const SERVICE_FIRST = 96;
const SERVICE_COUNT = 16;

/** Returns whether two networks or addresses in CIDR notation overlap; false for invalid ones. */
export function overlaps(one: string, other: string): boolean {
  const [a, b] = [parseIp(one), parseIp(other)];
  return a !== undefined && b !== undefined && (isWithin(a, b) || isWithin(b, a));
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

/** Chooses a pod network without routes. Falls back to the first candidate. */
export function chooseFreeSubnet(routes: readonly string[]): string {
  const build = (index: number): string => `10.88.${String(POD_SUBNET_FIRST + index)}.0/24`;
  return filterFree(routes, POD_SUBNET_COUNT, build)[0] ?? build(0);
}

/** Lists networks without routes within 10.96.0.0/12, as in clusters. */
export function listFreeServiceSubnets(routes: readonly string[]): readonly string[] {
  return filterFree(routes, SERVICE_COUNT, (index) => `10.${String(SERVICE_FIRST + index)}.0.0/16`);
}

/**
 * Runs `ip -4 -j route show table main`.
 * @throws AppError with OS_PROGRAM_FAILED
 */
export async function listRoutes(runner: ProcessRunner): Promise<readonly string[]> {
  const { exitCode, stdout, stderr } = await runner.run({
    argv: ["ip", "-4", "-j", "route", "show", "table", "main"],
    timeoutMs: TIMEOUT_MS,
  });
  // After a failure, an empty list could lead to a network that the host uses.
  if (exitCode !== 0) {
    throw new AppError("OS_PROGRAM_FAILED", { program: "ip", exitCode, stderr: stderr.trim() });
  }
  const routes: unknown = JSON.parse(stdout === "" ? "[]" : stdout);
  const targets = (Array.isArray(routes) ? routes : []).map((route: unknown) =>
    isJsonObject(route) ? readText(route, "dst") : "",
  );
  return targets.filter((target) => target !== "default" && target !== "");
}
