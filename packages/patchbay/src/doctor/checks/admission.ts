// SPDX-License-Identifier: Apache-2.0
// Whether virt-api is asked about VMs, and known by the API server.
import type { ApiService } from "@patchbay/api";
import type { Facts, Trial } from "../facts.ts";
import { ifSeen, ok, wrong, type Finding } from "../finding.ts";

const WEBHOOKS = "webhooks of virt-api";
const LOOK =
  "see virt-api's log, and: kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations patchbay";

function judgeTrial({ isFilledIn, isRefused }: Trial): readonly Finding[] {
  if (isFilledIn && isRefused) return [ok(WEBHOOKS, "fill in VMs, and refuse wrong ones")];
  const says = [
    ...(isFilledIn ? [] : ["a VM is not filled in"]),
    ...(isRefused ? [] : ["a wrong VM is not refused"]),
  ].join(", and ");
  return [
    wrong(WEBHOOKS, {
      says: `${says}: the API server does not ask virt-api`,
      fix: `make the webhooks anew: patchbay install; on a standalone machine: patchbay up; ${LOOK}`,
    }),
  ];
}

function judgeService({ metadata, status }: ApiService): Finding {
  const check = `APIService ${metadata.name}`;
  const told = status?.conditions?.find(({ type }) => type === "Available");
  if (told?.status === "True") return ok(check, "virt-api answers");
  return wrong(check, {
    says: `virt-api does not answer: ${told?.message ?? "it was not asked yet"}`,
    fix: "see whether virt-api runs, and its log; requests to VMs fail until it answers",
  });
}

/** The webhooks, by what comes of a trial, and the aggregated API. */
export function judgeAdmission({ trial, apiServices }: Facts): readonly Finding[] {
  return [
    ...("unseen" in trial && trial.unseen.includes("webhook")
      ? [wrong(WEBHOOKS, { says: trial.unseen, fix: LOOK })]
      : ifSeen(WEBHOOKS, trial, judgeTrial)),
    ...ifSeen("APIServices of virt-api", apiServices, (seen) => seen.map(judgeService)),
  ];
}
