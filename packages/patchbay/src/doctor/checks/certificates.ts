// SPDX-License-Identifier: Apache-2.0
// Until when certificates are good.
import { printTime } from "@patchbay/kube";
import type { CertificateEnd, Facts } from "../facts.ts";
import { ok, wrong, type Finding } from "../finding.ts";

const DAY_MS = 86_400_000;
/** Who makes them renews them before; what is left of so few days nobody has renewed. */
const LEFT_MIN_DAYS = 14;

function printDay(ms: number): string {
  return printTime(ms).slice(0, "2026-01-01".length);
}

function judgeEnd({ of, endsMs }: CertificateEnd, nowMs: number): Finding {
  const check = `certificate: ${of}`;
  const left = (endsMs - nowMs) / DAY_MS;
  if (left >= LEFT_MIN_DAYS) return ok(check, `is good until ${printDay(endsMs)}`);
  return wrong(check, {
    says: left <= 0 ? `ended on ${printDay(endsMs)}` : `ends on ${printDay(endsMs)}`,
    fix: "renew it where it was made; those of Patchbay are renewed by virt-api, on a standalone machine by the supervisor: see their logs",
  });
}

/** Each certificate that was seen. */
export function judgeCertificates({ certificates, nowMs }: Facts): readonly Finding[] {
  return certificates.map((one) => judgeEnd(one, nowMs));
}
