// SPDX-License-Identifier: Apache-2.0
// Removes iptables and nftables rules, routes and addresses that remain after the machine's programs have ended.
import { isWithin, parseIp } from "@patchbay/api/values";
import { messageOf, type Logger } from "@patchbay/base";
import type { Files, ProcessRunner } from "@patchbay/core/interfaces";
import { readFields, readText } from "../data-dir/json.ts";
import type { Paths } from "../data-dir/paths.ts";
import { removeServices } from "@patchbay/service-net/host";

const TIMEOUT_MS = 10_000;
/** Pattern of `-A POSTROUTING -s ADDRESS ... -j CNI-...`. Source: SetupIPMasq in pkg/ip of the CNI plugins. */
const RULE_PATTERN = /^-A POSTROUTING -s (\S+) .*-j (CNI-[0-9a-f]{24})$/;

interface MasqueradeRule {
  readonly line: string;
  readonly chain: string;
}

export function findRulesWithin(listing: string, subnet: string): readonly MasqueradeRule[] {
  const subnetRange = parseIp(subnet);
  return listing.split("\n").flatMap((line) => {
    const [, address = "", chain = ""] = RULE_PATTERN.exec(line) ?? [];
    const range = parseIp(address);
    const isOwn = subnetRange !== undefined && range !== undefined && isWithin(range, subnetRange);
    return isOwn ? [{ line, chain }] : [];
  });
}

export function buildRestoreInput(rules: readonly MasqueradeRule[]): string {
  const chains = [...new Set(rules.map(({ chain }) => chain))];
  return [
    "*nat",
    ...rules.map(({ line }) => line.replace(/^-A/, "-D")),
    ...chains.map((chain) => `-F ${chain}`),
    ...chains.map((chain) => `-X ${chain}`),
    "COMMIT",
    "",
  ].join("\n");
}

/** Removes masquerade rules of deleted pods. The bridge plugin leaves a rule behind if the pod's address moved to its guest. */
export async function removeMasquerade(deps: {
  readonly files: Files;
  readonly runner: ProcessRunner;
  readonly log: Logger;
  readonly paths: Paths;
}): Promise<void> {
  const { files, runner, paths, log } = deps;
  const subnet = readText(await readFields(files, paths.settings), "podSubnet");
  try {
    const list = { argv: ["iptables", "-t", "nat", "-S"], timeoutMs: TIMEOUT_MS } as const;
    const rules = findRulesWithin((await runner.run(list)).stdout, subnet);
    if (rules.length === 0) return;
    const argv = ["iptables-restore", "--noflush"] as const;
    const { exitCode, stderr } = await runner.run({
      argv,
      stdin: buildRestoreInput(rules),
      timeoutMs: TIMEOUT_MS,
    });
    if (exitCode === 0) log.info("removed leftover masquerade rules", { count: rules.length });
    else log.warn("leftover masquerade rules cannot be removed", { reason: stderr });
  } catch (error) {
    log.warn("leftover masquerade rules cannot be removed", {
      reason: messageOf(error),
      err: error,
    });
  }
}

export async function removeServiceRules(deps: {
  readonly files: Files;
  readonly runner: ProcessRunner;
  readonly log: Logger;
  readonly paths: Paths;
}): Promise<void> {
  const { files, runner, paths, log } = deps;
  try {
    await removeServices(
      runner,
      readText(await readFields(files, paths.settings), "serviceSubnet"),
    );
  } catch (error) {
    log.warn("service rules cannot be removed", { reason: messageOf(error), err: error });
  }
}
