// SPDX-License-Identifier: Apache-2.0
// Keeps the kernel's table as it is to be: whole at the start, then what changes.
import { AppError, messageOf } from "@patchbay/core";
import type { Logger, ProcessRunner } from "@patchbay/core/ports";
import type { ServiceCounters } from "../metrics.ts";
import type { Forward } from "./forwards.ts";
import { changeText, tableText, type TableSettings } from "./ruleset.ts";

const TIMEOUT_MS = 10_000;

/** What changes the table. */
export interface KeeperDeps {
  readonly runner: ProcessRunner;
  readonly log: Logger;
  readonly settings: TableSettings;
  readonly countWrite: ServiceCounters["countWrite"];
}

/** One step for the kernel: all of it, or nothing. */
async function apply({ runner, countWrite }: KeeperDeps, stdin: string): Promise<void> {
  const argv = ["nft", "-f", "-"] as const;
  const { exitCode, stderr } = await runner.run({ argv, stdin, timeoutMs: TIMEOUT_MS });
  if (exitCode === 0) return;
  countWrite("failed");
  throw new AppError("SERVICE_RULES_REFUSED", { reason: stderr.trim() });
}

/** The table of this machine; nobody else writes it. */
export class ForwardKeeper {
  readonly #deps: KeeperDeps;
  /** What is in the table, as far as this process has written it; undefined: not known. */
  #written: readonly Forward[] | undefined;

  constructor(deps: KeeperDeps) {
    this.#deps = deps;
  }

  /** How much is in the table, as far as it is known. */
  get count(): number {
    return this.#written?.length ?? 0;
  }

  /**
   * Connections that are there go on.
   * @throws AppError with SERVICE_RULES_REFUSED
   */
  async keep(forwards: readonly Forward[]): Promise<void> {
    const { log, settings, countWrite } = this.#deps;
    const before = this.#written;
    if (before !== undefined) {
      const change = changeText(settings, before, forwards);
      if (change === "") return;
      try {
        await apply(this.#deps, change);
        this.#written = forwards;
        countWrite("changed");
        log.info("services changed", { count: forwards.length });
        return;
      } catch (error) {
        // Somebody has changed our table, or flushed everything: it is made anew.
        log.warn("services are written anew", { reason: messageOf(error) });
        this.#written = undefined;
      }
    }
    await apply(this.#deps, tableText(settings, forwards));
    this.#written = forwards;
    countWrite("whole");
    log.info("services written", { count: forwards.length });
  }
}
