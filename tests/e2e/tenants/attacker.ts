// SPDX-License-Identifier: Apache-2.0
// A tenant's program, which attacks the machine in every way at once until its standard input ends. Prints a line when
// each attack has had a result, and their counts as JSON at the end.
import { once } from "node:events";
import { startApiAttacks, type ApiTarget } from "./api-attacks.ts";
import { AttackLoop } from "./attack-loop.ts";
import { startDnsAttacks } from "./dns-attacks.ts";

/** Targets that can be reached from where the program runs. */
export interface AttackOptions {
  /** Names of attacks; empty: all. */
  readonly names: readonly string[];
  readonly api?: ApiTarget;
  readonly dnsAddress?: string;
}

const BEGUN = "begun";

async function main(options: AttackOptions): Promise<void> {
  const loop = new AttackLoop(options.names);
  if (options.dnsAddress !== undefined) startDnsAttacks(loop, options.dnsAddress);
  if (options.api !== undefined) await startApiAttacks(loop, options.api);
  void loop.begun().then(() => process.stdout.write(`${BEGUN}\n`));
  process.stdin.resume();
  await once(process.stdin, "end");
  process.stdout.write(`${JSON.stringify(loop.stop())}\n`, () => {
    process.exit();
  });
}

const [, script, options] = process.argv;
if (script === import.meta.filename) {
  // Written by startAttacker.
  await main(JSON.parse(options ?? "") as AttackOptions);
}
