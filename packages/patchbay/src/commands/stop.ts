// SPDX-License-Identifier: Apache-2.0
// patchbay stop: stops a VM.
import type { Context, Input } from "../context.ts";
import { requestPower } from "../power.ts";
import { stopVerdict } from "../wait/verdict.ts";

/** Runs the command. */
export async function run(context: Context, input: Input): Promise<void> {
  await requestPower(context, input, { subresource: "stop", verdictOf: stopVerdict });
}
