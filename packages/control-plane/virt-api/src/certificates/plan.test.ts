// SPDX-License-Identifier: Apache-2.0
// Order and time of certificate actions.
import { expect, test } from "vitest";
import { planCertificates, type CertificateFacts } from "./plan.ts";

const DAY = 24 * 3_600_000;
const KNOWN = { target: "v1", isCurrent: true } as const;
const UNKNOWN = { target: "mutating", isCurrent: false } as const;

function planOf(facts: Partial<CertificateFacts>) {
  const { actions, nextCheckMs: lookAgainMs } = planCertificates({
    nowMs: 1000 * DAY,
    targets: [],
    ...facts,
  });
  return {
    steps: actions.map((action) => ("target" in action ? action.target : action.kind)),
    days: lookAgainMs / DAY,
  };
}

test.each<{ name: string; given: Partial<CertificateFacts>; steps: string[]; days?: number }>([
  { name: "no certificates: creates only the CA", given: {}, steps: ["makeAuthority"] },
  {
    name: "a CA: is distributed before it signs the serving certificate",
    given: { authorityEndMs: 4650 * DAY, targets: [KNOWN, UNKNOWN] },
    steps: ["mutating", "issueServing"],
  },
  {
    name: "all certificates are valid: checks again when a third of the lifetime remains",
    given: { authorityEndMs: 4650 * DAY, servingEndMs: 1090 * DAY, targets: [KNOWN] },
    steps: [],
    days: 60,
  },
  {
    name: "a configuration was replaced without the CA bundle",
    given: { authorityEndMs: 4650 * DAY, servingEndMs: 1090 * DAY, targets: [UNKNOWN] },
    steps: ["mutating"],
    days: 60,
  },
  {
    name: "a third of the lifetime remains: renews",
    given: { authorityEndMs: 4650 * DAY, servingEndMs: 1030 * DAY, targets: [KNOWN] },
    steps: ["issueServing"],
  },
  {
    name: "a third of the serving lifetime and a day remain: waits for a day",
    given: { authorityEndMs: 4650 * DAY, servingEndMs: 1031 * DAY },
    steps: [],
    days: 1,
  },
  {
    name: "the CA expires in a year: creates a second CA",
    given: { authorityEndMs: 1365 * DAY, servingEndMs: 1090 * DAY },
    steps: ["makeAuthority"],
  },
  {
    name: "the CA expires in a year and two days: checks again in two days",
    given: { authorityEndMs: 1367 * DAY, servingEndMs: 1090 * DAY },
    steps: [],
    days: 2,
  },
  {
    name: "an empty Secret for virt-handler: issues its certificate",
    given: { authorityEndMs: 4650 * DAY, servingEndMs: 1090 * DAY, handlers: {} },
    steps: ["issueHandlers"],
  },
  {
    name: "the virt-handler certificate expires first: checks again in time",
    given: {
      authorityEndMs: 4650 * DAY,
      servingEndMs: 1090 * DAY,
      handlers: { endMs: 1035 * DAY },
    },
    steps: [],
    days: 5,
  },
])("$name", ({ given, steps, days = 60_000 / DAY }) => {
  expect(planOf(given)).toEqual({ steps, days });
});
