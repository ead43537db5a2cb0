// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { dataplaneGroupProblem } from "./dataplane-group.ts";

test.each([
  { gid: 0, says: undefined },
  { gid: 1, says: undefined },
  { gid: 2 ** 32 - 2, says: undefined },
  { gid: 2 ** 32 - 1, says: "it must be the number of a group" },
  { gid: -1, says: "it must be the number of a group" },
  { gid: 1.5, says: "it must be the number of a group" },
  { gid: Number.NaN, says: "it must be the number of a group" },
  {
    gid: 107,
    says: "it is the launchers' own, each of which could make sockets for others then",
  },
])("of group $gid is said: $says", ({ gid, says }) => {
  expect(dataplaneGroupProblem(gid)).toBe(says);
});
