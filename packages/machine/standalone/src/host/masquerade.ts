// SPDX-License-Identifier: Apache-2.0
// Rules that the bridge plugin leaves behind: it tears down by the addresses of the pod's NIC, which a guest may have taken over.
import { isWithin, parseIp } from "@patchbay/api";
import { messageOf } from "@patchbay/core";
import type { Files, Logger, ProcessRunner } from "@patchbay/core/ports";
import { readFields, textOf } from "../data-dir/json.ts";
import type { Paths } from "../data-dir/paths.ts";

const TIMEOUT_MS = 10_000;
/** `-A POSTROUTING -s ADDRESS ... -j CNI-...`. Source: CNI plugins, pkg/ip SetupIPMasq. */
const RULE = /^-A POSTROUTING -s (\S+) .*-j (CNI-[0-9a-f]{24})$/;

/** A rule of the bridge plugin and the chain that it leads to. */
export interface MasqueradeRule {
  readonly line: string;
  readonly chain: string;
}

/** The rules for addresses of a network, in what `iptables -t nat -S` prints. */
export function rulesWithin(listing: string, subnet: string): readonly MasqueradeRule[] {
  const own = parseIp(subnet);
  return listing.split("\n").flatMap((line) => {
    const [, address = "", chain = ""] = RULE.exec(line) ?? [];
    const range = parseIp(address);
    const isOwn = own !== undefined && range !== undefined && isWithin(range, own);
    return isOwn ? [{ line, chain }] : [];
  });
}

/** Text of `iptables-restore` that takes the rules and their chains away in one step. */
export function restoreText(rules: readonly MasqueradeRule[]): string {
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

/** Removes what is left of the pods' default network. Failing is no reason to stop the rest. */
export async function removeMasquerade(deps: {
  readonly files: Files;
  readonly runner: ProcessRunner;
  readonly log: Logger;
  readonly paths: Paths;
}): Promise<void> {
  const { files, runner, paths, log } = deps;
  const subnet = textOf(await readFields(files, paths.settings), "podSubnet");
  try {
    const list = { argv: ["iptables", "-t", "nat", "-S"], timeoutMs: TIMEOUT_MS } as const;
    const rules = rulesWithin((await runner.run(list)).stdout, subnet);
    if (rules.length === 0) return;
    const argv = ["iptables-restore", "--noflush"] as const;
    const { exitCode, stderr } = await runner.run({
      argv,
      stdin: restoreText(rules),
      timeoutMs: TIMEOUT_MS,
    });
    if (exitCode === 0) log.info("removed leftover masquerade rules", { count: rules.length });
    else log.warn("masquerade rules cannot be removed", { reason: stderr });
  } catch (error) {
    log.warn("masquerade rules cannot be removed", { reason: messageOf(error), err: error });
  }
}
