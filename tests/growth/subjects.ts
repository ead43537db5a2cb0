// SPDX-License-Identifier: Apache-2.0
import { nearestName } from "@patchbay/base";
import { ADMISSION } from "./admission.ts";
import { API_SERVER } from "./api-server.ts";
import { PARSERS } from "./parsers.ts";
import { PLANNERS } from "./planners.ts";
import { listRuleSubjects } from "./rules.ts";
import type { Subject } from "./subject.ts";

/** Quadratic calls, which show that the counts are complete. The edit distance of names is limited to 64 characters. */
const CONTROLS: readonly Subject[] = [
  {
    name: "control: an edit distance",
    limit: 64,
    prepare: (size) => () => nearestName("a".repeat(size), ["b".repeat(size)]),
  },
  {
    name: "control: a built-in search for each entry",
    limit: 256,
    prepare: (size) => {
      const list = Array.from({ length: size }, (_entry, index) => index);
      return () => list.filter((entry) => list.includes(entry));
    },
  },
];

export async function listSubjects(): Promise<readonly Subject[]> {
  return [
    ...CONTROLS,
    ...(await listRuleSubjects()),
    ...ADMISSION,
    ...API_SERVER,
    ...PARSERS,
    ...PLANNERS,
  ];
}
