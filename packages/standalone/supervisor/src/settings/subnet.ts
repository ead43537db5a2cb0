// SPDX-License-Identifier: Apache-2.0
// Networks for pods and Services without routes on the host.
import { isWithin, parseIp } from "@patchbay/api";
import { isJsonObject } from "@patchbay/api/json";
import { AppError } from "@patchbay/base";
import type { ProcessRunner } from "@patchbay/core/interfaces";
import { readText } from "../data-dir/json.ts";

const TIMEOUT_MS = 5000;
/** Podman's networks start at 10.88.0.0, so this leaves room for them. */
const POD_SUBNET_FIRST = 111;
const POD_SUBNET_COUNT = 128;
const SERVICE_FIRST = 96;
const SERVICE_COUNT = 16;

/** Whether two networks or addresses in CIDR form overlap; false for invalid ones. */
export function overlaps(one: string, other: string): boolean {
  const [a, b] = [parseIp(one), parseIp(other)];
  return a !== undefined && b !== undefined && (isWithin(a, b) || isWithin(b, a));
}

function filterFree(
  routes: readonly string[],
  count: number,
  at: (index: number) => string,
): readonly string[] {
  return Array.from({ length: count }, (_none, index) => at(index)).filter(
    (candidate) => !routes.some((route) => overlaps(route, candidate)),
  );
}

/** Falls back to the first candidate. */
export function chooseFreeSubnet(routes: readonly string[]): string {
  const at = (index: number): string => `10.88.${String(POD_SUBNET_FIRST + index)}.0/24`;
  return filterFree(routes, POD_SUBNET_COUNT, at)[0] ?? at(0);
}

/** Parts of 10.96.0.0/12, as in clusters. */
export function listFreeServiceSubnets(routes: readonly string[]): readonly string[] {
  return filterFree(routes, SERVICE_COUNT, (index) => `10.${String(SERVICE_FIRST + index)}.0.0/16`);
}

/**
 * Equivalent to: `ip -4 -j route show table main`.
 * @throws AppError with OS_PROGRAM_FAILED
 */
export async function listRoutes(runner: ProcessRunner): Promise<readonly string[]> {
  const { exitCode, stdout, stderr } = await runner.run({
    argv: ["ip", "-4", "-j", "route", "show", "table", "main"],
    timeoutMs: TIMEOUT_MS,
  });
  // A failure must not count as an empty list, or a network of the host could be chosen.
  if (exitCode !== 0) {
    throw new AppError("OS_PROGRAM_FAILED", { program: "ip", exitCode, stderr: stderr.trim() });
  }
  const routes: unknown = JSON.parse(stdout === "" ? "[]" : stdout);
  const targets = (Array.isArray(routes) ? routes : []).map((route: unknown) =>
    isJsonObject(route) ? readText(route, "dst") : "",
  );
  return targets.filter((target) => target !== "default" && target !== "");
}
