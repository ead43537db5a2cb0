// SPDX-License-Identifier: Apache-2.0
import { isLostRace } from "@patchbay/kube";
import type { Deps } from "../deps.ts";
import { toConflictAnswer, type About, type Answer } from "../http/answers.ts";

/** More conflicts in a row indicate a fault of another writer. */
const ATTEMPTS_MAX = 10;

function findServerMessage(conflict: unknown): string {
  const { message } = isLostRace(conflict) ? conflict.details : {};
  return typeof message === "string" ? message : "";
}

/**
 * Repeats an attempt after conflicts. `attempt` gets the number of earlier attempts; it returns "again" or throws on
 * a conflict. Finally responds with, and logs, the server's message.
 */
export async function retryOnConflict(
  attempt: (count: number) => Promise<Answer | "again">,
  { log }: Pick<Deps, "log">,
  about: About,
): Promise<Answer> {
  let conflict: unknown;
  for (let count = 0; count < ATTEMPTS_MAX; count += 1) {
    try {
      const answer = await attempt(count);
      if (answer !== "again") return answer;
    } catch (error) {
      if (!isLostRace(error)) throw error;
      conflict = error;
    }
  }
  const reason = findServerMessage(conflict);
  log.warn("abandoned a request after too many conflicts", {
    resource: about.type.resource,
    object: about.name,
    reason,
  });
  return toConflictAnswer(about, reason);
}
