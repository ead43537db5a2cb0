// SPDX-License-Identifier: Apache-2.0
// Which networks pods and Services get: such that nothing on the host leads to already.
import { isWithin, parseIp } from "@patchbay/api";
import { isJsonObject } from "@patchbay/api/json";
import { AppError } from "@patchbay/core";
import type { ProcessRunner } from "@patchbay/core/ports";
import { textOf } from "../data-dir/json.ts";

const TIMEOUT_MS = 5000;
/** Podman's own networks begin at 10.88.0.0; this is out of their way. */
const FIRST = 111;
const COUNT = 128;
const SERVICE_FIRST = 96;
const SERVICE_COUNT = 16;

/** Whether two networks in CIDR form, or addresses, have an address in common; what is none of both has none. */
export function overlaps(one: string, other: string): boolean {
  const [a, b] = [parseIp(one), parseIp(other)];
  return a !== undefined && b !== undefined && (isWithin(a, b) || isWithin(b, a));
}

/** Those of `count` networks that overlap none of the routes. */
function allBeside(
  routes: readonly string[],
  count: number,
  at: (index: number) => string,
): readonly string[] {
  return Array.from({ length: count }, (_none, index) => at(index)).filter(
    (candidate) => !routes.some((route) => overlaps(route, candidate)),
  );
}

/** The first of our networks for pods that overlaps none of the routes; none is free: the first. */
export function chooseSubnetBeside(routes: readonly string[]): string {
  const at = (index: number): string => `10.88.${String(FIRST + index)}.0/24`;
  return allBeside(routes, COUNT, at)[0] ?? at(0);
}

/** Our networks for Services that overlap none of the routes, in order: 10.96.0.0/12 in parts, as clusters have it. */
export function serviceSubnetsBeside(routes: readonly string[]): readonly string[] {
  return allBeside(routes, SERVICE_COUNT, (index) => `10.${String(SERVICE_FIRST + index)}.0.0/16`);
}

/**
 * The networks that the host has routes to. Equivalent to: `ip -4 -j route show table main`.
 * @throws AppError with OS_PROGRAM_FAILED
 */
export async function listRoutes(runner: ProcessRunner): Promise<readonly string[]> {
  const { exitCode, stdout, stderr } = await runner.run({
    argv: ["ip", "-4", "-j", "route", "show", "table", "main"],
    timeoutMs: TIMEOUT_MS,
  });
  // Taken for an empty list, a failure would let the machine choose a network that the host uses.
  if (exitCode !== 0) {
    throw new AppError("OS_PROGRAM_FAILED", { program: "ip", exitCode, stderr: stderr.trim() });
  }
  const routes: unknown = JSON.parse(stdout === "" ? "[]" : stdout);
  const targets = (Array.isArray(routes) ? routes : []).map((route: unknown) =>
    isJsonObject(route) ? textOf(route, "dst") : "",
  );
  return targets.filter((target) => target !== "default" && target !== "");
}
