// SPDX-License-Identifier: Apache-2.0
// patchbay stop: stops a VM.
import type { Context, Input } from "../../context.ts";
import { requestPower } from "./request-power.ts";
import { stopVerdict } from "../../change/verdict.ts";

/** Runs the command. */
export async function run(context: Context, input: Input): Promise<void> {
  await requestPower(context, input, { subresource: "stop", verdictOf: stopVerdict });
}
