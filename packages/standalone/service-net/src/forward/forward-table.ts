// SPDX-License-Identifier: Apache-2.0
// Writes the kernel's table of forwards: completely at the start, then only changes.
import { AppError, messageOf, type Logger } from "@patchbay/base";
import type { ProcessRunner } from "@patchbay/core/interfaces";
import type { ServiceCounters } from "../metrics.ts";
import type { Forward } from "./forwards.ts";
import { changeText, tableText, type TableSettings } from "./ruleset.ts";

const TIMEOUT_MS = 10_000;

interface ForwardTableDeps {
  readonly runner: ProcessRunner;
  readonly log: Logger;
  readonly settings: TableSettings;
  readonly countWrite: ServiceCounters["countWrite"];
}

/** Atomic. */
async function apply({ runner, countWrite }: ForwardTableDeps, stdin: string): Promise<void> {
  const argv = ["nft", "-f", "-"] as const;
  const { exitCode, stderr } = await runner.run({ argv, stdin, timeoutMs: TIMEOUT_MS });
  if (exitCode === 0) return;
  countWrite("failed");
  throw new AppError("SERVICE_RULES_REFUSED", { reason: stderr.trim() });
}

export class ForwardTable {
  readonly #deps: ForwardTableDeps;
  /** Undefined when unknown. */
  #written: readonly Forward[] | undefined;

  constructor(deps: ForwardTableDeps) {
    this.#deps = deps;
  }

  get count(): number {
    return this.#written?.length ?? 0;
  }

  /**
   * Existing connections continue.
   * @throws AppError with SERVICE_RULES_REFUSED
   */
  async write(forwards: readonly Forward[]): Promise<void> {
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
        // Another program changed or flushed the table, so it is rewritten.
        log.warn("service rules are rewritten completely", { reason: messageOf(error) });
        this.#written = undefined;
      }
    }
    await apply(this.#deps, tableText(settings, forwards));
    this.#written = forwards;
    countWrite("whole");
    log.info("services written", { count: forwards.length });
  }
}
