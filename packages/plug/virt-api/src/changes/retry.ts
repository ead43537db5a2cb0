// SPDX-License-Identifier: Apache-2.0
import { isLostRace } from "@patchbay/kube";
import type { Deps } from "../deps.ts";
import { toLostAnswer, type About, type Answer } from "../http/answers.ts";

/** More conflicts in a row indicate a fault of another writer. */
const ATTEMPTS_MAX = 10;

function wordsOf(lost: unknown): string {
  const { message } = isLostRace(lost) ? lost.details : {};
  return typeof message === "string" ? message : "";
}

/**
 * Repeats an attempt after conflicts. `attempt` gets the number of earlier attempts; it returns "again" or throws on
 * a conflict. Finally responds with, and logs, the server's message.
 */
export async function insist(
  attempt: (count: number) => Promise<Answer | "again">,
  { log }: Pick<Deps, "log">,
  about: About,
): Promise<Answer> {
  let lost: unknown;
  for (let count = 0; count < ATTEMPTS_MAX; count += 1) {
    try {
      const answer = await attempt(count);
      if (answer !== "again") return answer;
    } catch (error) {
      if (!isLostRace(error)) throw error;
      lost = error;
    }
  }
  const reason = wordsOf(lost);
  log.warn("every race lost", { resource: about.type.resource, object: about.name, reason });
  return toLostAnswer(about, reason);
}
