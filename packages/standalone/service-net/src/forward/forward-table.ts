// SPDX-License-Identifier: Apache-2.0
// The nftables table of forwards. The first write replaces the table, and later writes apply only changes.
import { AppError, messageOf, type Logger } from "@patchbay/base";
import type { ProcessRunner } from "@patchbay/core/interfaces";
import type { ServiceCounters } from "../metrics.ts";
import type { Forward } from "./forwards.ts";
import { printChanges, printTable, type TableSettings } from "./ruleset.ts";

const TIMEOUT_MS = 10_000;

interface ForwardTableDeps {
  readonly runner: ProcessRunner;
  readonly log: Logger;
  readonly settings: TableSettings;
  readonly countWrite: ServiceCounters["countWrite"];
}

async function applyRules({ runner, countWrite }: ForwardTableDeps, stdin: string): Promise<void> {
  const argv = ["nft", "-f", "-"] as const;
  const { exitCode, stderr } = await runner.run({ argv, stdin, timeoutMs: TIMEOUT_MS });
  if (exitCode === 0) return;
  countWrite("failed");
  throw new AppError("SERVICE_RULES_REFUSED", { reason: stderr.trim() });
}

export class ForwardTable {
  readonly #deps: ForwardTableDeps;
  /** Forwarding rules of the last successful write; undefined before the first write and after a failed change. */
  #writtenForwards: readonly Forward[] | undefined;

  constructor(deps: ForwardTableDeps) {
    this.#deps = deps;
  }

  get count(): number {
    return this.#writtenForwards?.length ?? 0;
  }

  /** Writes the forwards without interrupting connections. @throws AppError with SERVICE_RULES_REFUSED */
  async write(forwards: readonly Forward[]): Promise<void> {
    const { log, settings, countWrite } = this.#deps;
    const previousForwards = this.#writtenForwards;
    if (previousForwards !== undefined) {
      const change = printChanges(settings, previousForwards, forwards);
      if (change === "") return;
      try {
        await applyRules(this.#deps, change);
        this.#writtenForwards = forwards;
        countWrite("changed");
        log.info("services changed", { count: forwards.length });
        return;
      } catch (error) {
        // Replaces the table, because nft rejects changes after another program has changed or deleted the table.
        log.warn("service rules are rewritten completely", { reason: messageOf(error) });
        this.#writtenForwards = undefined;
      }
    }
    await applyRules(this.#deps, printTable(settings, forwards));
    this.#writtenForwards = forwards;
    countWrite("whole");
    log.info("services written", { count: forwards.length });
  }
}
