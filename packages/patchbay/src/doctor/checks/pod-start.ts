// SPDX-License-Identifier: Apache-2.0
// Whether a standalone machine starts pods.
import type { Facts } from "../facts.ts";
import { ifSeen, ok, wrong, type Finding } from "../finding.ts";

const CHECK = "start of a pod";

/** Nothing on a cluster, whose kubelets are not Patchbay's. */
export function judgePodStart({ podTrial }: Facts): readonly Finding[] {
  if (podTrial === undefined) return [];
  return ifSeen(CHECK, podTrial, ({ problem }) => [
    problem === undefined
      ? ok(CHECK, "a pod with the launchers' image and user starts and ends")
      : wrong(CHECK, {
          says: `a pod with the launchers' image and user does not start: ${problem}; no VM starts either`,
          fix: "see the log of node-runtime; for `permission denied`, every user must be able to enter the data directory's parents and to read the unpacked images: run `patchbay down`, `umask 022`, `patchbay up`",
        }),
  ]);
}
