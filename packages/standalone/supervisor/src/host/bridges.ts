// SPDX-License-Identifier: Apache-2.0
// Removes bridges that the machine's CNI plugins have created, because the plugins do not remove them.
import { isJsonObject } from "@patchbay/api/json";
import { listCreatedBridges } from "@patchbay/cni";
import { AppError, type Logger } from "@patchbay/base";
import { planBridgeRemoval } from "@patchbay/core/nics";
import type { Files, ProcessRunner } from "@patchbay/core/interfaces";
import { readNumber, readText } from "../data-dir/json.ts";
import type { Paths } from "../data-dir/paths.ts";

const TIMEOUT_MS = 10_000;

export interface CleaningDeps {
  readonly files: Files;
  readonly runner: ProcessRunner;
  readonly log: Logger;
  readonly paths: Paths;
  readonly bootId: string;
}

export interface HostLink {
  readonly name: string;
  readonly index: number;
  readonly master?: string;
}

export async function listLinks(runner: ProcessRunner): Promise<readonly HostLink[]> {
  const argv = ["ip", "-j", "link", "show"] as const;
  const { exitCode, stdout, stderr } = await runner.run({ argv, timeoutMs: TIMEOUT_MS });
  if (exitCode !== 0) {
    throw new AppError("OS_PROGRAM_FAILED", { program: "ip", exitCode, stderr: stderr.trim() });
  }
  const links: unknown = JSON.parse(stdout === "" ? "[]" : stdout);
  if (!Array.isArray(links)) return [];
  return links.filter(isJsonObject).map((link) => {
    const master = readText(link, "master");
    return {
      name: readText(link, "ifname"),
      index: readNumber(link, "ifindex") ?? 0,
      ...(master !== "" && { master }),
    };
  });
}

export async function removeBridges(deps: CleaningDeps): Promise<void> {
  const { files, runner, paths, bootId, log } = deps;
  const records = await Promise.all(
    [paths.netAgent, paths.nodeRuntime].map((stateDir) =>
      listCreatedBridges(files, { stateDir, bootId }),
    ),
  );
  const { remove: removableNames, inUse } = planBridgeRemoval(
    records.flat(),
    await listLinks(runner),
  );
  for (const link of inUse) log.warn("bridge is in use and not removed", { link });
  for (const name of removableNames) {
    const argv = ["ip", "link", "del", name, "type", "bridge"] as const;
    const { exitCode, stderr } = await runner.run({ argv, timeoutMs: TIMEOUT_MS });
    if (exitCode === 0) log.info("bridge removed", { link: name });
    else log.warn("bridge cannot be removed", { link: name, reason: stderr.trim() });
  }
}
