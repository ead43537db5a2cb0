// SPDX-License-Identifier: Apache-2.0
// What becomes of a write that somebody else was faster than? It is planned anew, on fresh facts.
import { isLostRace } from "@patchbay/kube";
import type { Deps } from "../deps.ts";
import { toLostAnswer, type About, type Answer } from "../http/answers.ts";

/** Writers that were faster so many times in a row are a fault of their own. */
const ATTEMPTS_MAX = 10;

/** The server's own words; empty where there were none. */
function wordsOf(lost: unknown): string {
  const { message } = isLostRace(lost) ? lost.details : {};
  return typeof message === "string" ? message : "";
}

/**
 * Tries again until the race is won. An attempt is told how many there were before; it says "again", or throws that
 * the race is lost. Where it never is won the user is told what the server says, and so is the log.
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
